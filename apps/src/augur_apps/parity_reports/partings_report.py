"""Where two answers part, with the text that stands around the place."""

from collections.abc import Iterator

from rich.console import Console

from augur_apps.parity_reports.figures import short, ulps_text
from augur_proof import Comparison
from augur_tok import Tokenizer

# Tokens shown before and after the place where two answers part.
_CONTEXT = 8


def print_partings(console: Console, comparisons: list[Comparison], tokenizer: Tokenizer) -> None:
    """For each prompt that failed or parted: where, and what stands around it."""
    for number, one in enumerate(comparisons, start=1):
        if one.held and not one.near_tie:
            continue
        console.print(f"prompt {number}", style="bold")
        for line in _lines(one, tokenizer):
            console.print(f"  {line}", markup=False, soft_wrap=True)


def _lines(one: Comparison, tokenizer: Tokenizer) -> Iterator[str]:
    theirs, ours = one.reference, one.candidate
    for what, at, left, right in (
        ("input ids", one.id_parting, theirs.input_ids, ours.input_ids),
        ("new tokens", one.token_parting, theirs.generated_ids, ours.generated_ids),
    ):
        if at is None:
            continue
        before = _quoted(left[max(0, at - _CONTEXT) : at], tokenizer)
        yield f"{what} part at {at} (of {len(left)}), after {before}"
        yield f"  reference  {_continuation(left, at, tokenizer)}"
        preferred = what == "new tokens" and one.margin is not None
        margin = f", preferred by {one.margin:.3g}" if preferred else ""
        yield f"  augur      {_continuation(right, at, tokenizer)}{margin}"
    found = one.logits
    if found.num_differing:
        step, token_id = found.index
        yield (
            f"{found.num_differing:,} of {found.num_values:,} logits differ, most that of id "
            f"{token_id} {_quoted([token_id], tokenizer)} for new token {step}"
        )
        yield f"  reference  {found.reference:.9g}"
        apart = f"{short(found.largest)}{ulps_text(found.ulps)}"
        yield f"  augur      {found.ours:.9g}, apart by {apart}"


def _continuation(token_ids: list[int], at: int, tokenizer: Tokenizer) -> str:
    """The token at a place, its id, and some that follow."""
    if at >= len(token_ids):
        return "has ended"
    following = token_ids[at + 1 : at + 1 + _CONTEXT]
    then = f", then {_quoted(following, tokenizer)}" if following else ""
    return f"{_quoted(token_ids[at : at + 1], tokenizer)} (id {token_ids[at]}){then}"


def _quoted(token_ids: list[int], tokenizer: Tokenizer) -> str:
    return repr(tokenizer.decode(token_ids)) if token_ids else "the beginning"
