"""What a check prints: the setting, a row for each prompt, and what differs where."""

import math
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from augur_tok import Tokenizer
from proof.compare import Comparison
from proof.demand import Demand
from proof.made_with import MadeWith

# Tokens shown before and after the place where two answers part.
_CONTEXT = 8
# Width of the table without the prompts.
_OTHER_COLUMNS = 66


def print_setting(
    console: Console, candidate: MadeWith, reference: MadeWith, source: str | None, demand: Demand
) -> None:
    """Who is compared with whom, and what is demanded.

    Args:
        console: to print on.
        candidate: augur's setting.
        reference: transformers' setting.
        source: the file that holds the reference's answers; None where they were made now.
        demand: the rule.
    """
    why = f", for {'; '.join(demand.reasons)}" if demand.reasons else ""
    lines = [
        f"augur      {candidate.model}: {candidate.line}",
        f"reference  {reference.model}: {reference.line}",
        f"demand     logits within {demand.tolerance}{why}",
    ]
    if source is not None:
        lines.insert(2, f"           from {source}: logits of the first new token alone")
    if demand.near_ties_may_part:
        lines.append("           tokens may part where two logits are closer than that")
    machines = reference.differences(candidate)
    if machines:
        lines.append(f"note       {'; '.join(machines)}: may change the last bits")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def print_comparisons(console: Console, comparisons: list[Comparison]) -> None:
    """The table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    room = max(20, console.width - _OTHER_COLUMNS)
    table.add_column("prompt", no_wrap=True, overflow="ellipsis", max_width=room)
    table.add_column("ids", no_wrap=True)
    for title in ("tokens", "largest\nlogit diff", "ULPs", "KL\n(nats)", "logit\nrows"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for number, one in enumerate(comparisons, start=1):
        table.add_row(
            str(number),
            Text(" ".join(one.reference.prompt.split())),
            "same" if one.id_parting is None else "differ",
            f"{one.num_same_tokens}/{len(one.reference.generated_ids)}",
            short(one.logits.largest),
            ulps_cell(one.logits.ulps),
            short(one.kl_nats),
            str(one.num_steps),
            _verdict(one),
        )
    console.print(table)


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


def print_verdict(console: Console, comparisons: list[Comparison]) -> None:
    """The last line."""
    num_held = sum(one.held for one in comparisons)
    if num_held == len(comparisons):
        console.print(f"all {num_held} prompts held", style="green")
    else:
        num_failed = len(comparisons) - num_held
        console.print(f"{num_failed} of {len(comparisons)} prompts failed", style="bold red")


def check_object(
    candidate: MadeWith,
    reference: MadeWith,
    source: str | None,
    demand: Demand,
    found: list[Comparison],
) -> dict[str, Any]:
    """Everything, as one object for JSON."""
    return {
        "held": all(one.held for one in found),
        "candidate": candidate.to_json(),
        "reference": {"file": source, **reference.to_json()},
        "demand": {
            "logits": str(demand.tolerance),
            "reasons": list(demand.reasons),
            **asdict(demand.tolerance),
        },
        "prompts": [_comparison_object(one) for one in found],
    }


def short(value: float) -> str:
    """Three digits; a plain 0 for exactly zero alone."""
    return f"{value:.3g}"


def ulps_cell(ulps: int | None) -> str:
    """A count for a table, a dash where there is none."""
    if ulps is None:
        return "-"
    return f"{ulps:,}" if ulps < 1_000_000 else f"{ulps:.1e}"


def _verdict(one: Comparison) -> Text:
    if not one.held:
        return Text("FAILED", style="bold red")
    return Text("ok, near tie" if one.near_tie else "ok", style="green")


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


def ulps_text(ulps: int | None) -> str:
    """ " (3 ULPs)"; nothing where there is no such count."""
    return "" if ulps is None else f" ({ulps_cell(ulps)} ULP{'' if ulps == 1 else 's'})"


def _continuation(token_ids: list[int], at: int, tokenizer: Tokenizer) -> str:
    """The token at a place, its id, and some that follow."""
    if at >= len(token_ids):
        return "has ended"
    following = token_ids[at + 1 : at + 1 + _CONTEXT]
    then = f", then {_quoted(following, tokenizer)}" if following else ""
    return f"{_quoted(token_ids[at : at + 1], tokenizer)} (id {token_ids[at]}){then}"


def _quoted(token_ids: list[int], tokenizer: Tokenizer) -> str:
    return repr(tokenizer.decode(token_ids)) if token_ids else "the beginning"


def _comparison_object(one: Comparison) -> dict[str, Any]:
    return {
        "held": one.held,
        "prompt": one.reference.prompt,
        "same_ids": one.id_parting is None,
        "id_parting": one.id_parting,
        "num_tokens": len(one.reference.generated_ids),
        "num_same_tokens": one.num_same_tokens,
        "token_parting": one.token_parting,
        "margin": one.margin,
        "near_tie": one.near_tie,
        "num_logit_rows": one.num_steps,
        "largest_logit_difference": json_number(one.logits.largest),
        "largest_at": {"step": one.logits.index[0], "token_id": one.logits.index[1]},
        "ulps": one.logits.ulps,
        "num_differing_logits": one.logits.num_differing,
        "kl_nats": json_number(one.kl_nats),
        "reference_token_ids": one.reference.generated_ids,
        "token_ids": one.candidate.generated_ids,
    }


def json_number(value: float) -> float | str:
    """JSON has no infinity and no NaN; they are written as text."""
    return value if math.isfinite(value) else str(value)
