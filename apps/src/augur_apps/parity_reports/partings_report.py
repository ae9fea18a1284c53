"""Where two answers part, with the text that stands around the place."""

from rich.console import Console

from augur_apps.parity_reports.figures import short, ulps_text
from augur_proof.compare import Comparison
from augur_tok import Tokenizer

# Tokens shown before and after the place where two answers part.
_CONTEXT = 8


def print_partings(console: Console, comparisons: list[Comparison], tokenizer: Tokenizer) -> None:
    """For each prompt that failed or parted: where, and what stands around it."""
    for number, one in enumerate(comparisons, start=1):
        if one.held and not one.near_tie:
            continue
        console.print(f"prompt {number}", style="bold")
        for line in (
            *_id_lines(one, tokenizer),
            *_token_lines(one, tokenizer),
            *_logit_lines(one, tokenizer),
        ):
            console.print(f"  {line}", markup=False, soft_wrap=True)


def _id_lines(one: Comparison, tokenizer: Tokenizer) -> list[str]:
    at = one.id_parting
    if at is None:
        return []
    return [
        f"input ids part at {at} (of {len(one.reference.input_ids)}), after "
        f"{_quoted(one.reference.input_ids[max(0, at - _CONTEXT) : at], tokenizer)}",
        f"  reference  {_continuation(one.reference.input_ids, at, tokenizer)}",
        f"  augur      {_continuation(one.candidate.input_ids, at, tokenizer)}",
    ]


def _token_lines(one: Comparison, tokenizer: Tokenizer) -> list[str]:
    at = one.token_parting
    if at is None:
        return []
    margin = f", preferred by {one.margin:.3g}" if one.margin is not None else ""
    return [
        f"new tokens part at {at} (of {len(one.reference.generated_ids)}), after "
        f"{_quoted(one.reference.generated_ids[max(0, at - _CONTEXT) : at], tokenizer)}",
        f"  reference  {_continuation(one.reference.generated_ids, at, tokenizer)}",
        f"  augur      {_continuation(one.candidate.generated_ids, at, tokenizer)}{margin}",
    ]


def _logit_lines(one: Comparison, tokenizer: Tokenizer) -> list[str]:
    found = one.logits
    if found.num_differing == 0:
        return []
    step, token_id = found.index
    return [
        f"{found.num_differing:,} of {found.num_values:,} logits differ, most that of id "
        f"{token_id} {_quoted([token_id], tokenizer)} for new token {step}",
        f"  reference  {found.reference:.9g}",
        f"  augur      {found.ours:.9g}, apart by {short(found.largest)}{ulps_text(found.ulps)}",
    ]


def _continuation(token_ids: list[int], at: int, tokenizer: Tokenizer) -> str:
    """The token at a place, its id, and some that follow."""
    if at >= len(token_ids):
        return "has ended"
    following = token_ids[at + 1 : at + 1 + _CONTEXT]
    then = f", then {_quoted(following, tokenizer)}" if following else ""
    return f"{_quoted(token_ids[at : at + 1], tokenizer)} (id {token_ids[at]}){then}"


def _quoted(token_ids: list[int], tokenizer: Tokenizer) -> str:
    return repr(tokenizer.decode(token_ids)) if token_ids else "the beginning"
