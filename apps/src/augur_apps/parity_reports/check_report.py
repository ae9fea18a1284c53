"""What a check prints: the setting, a row for each prompt, the verdict."""

from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from augur_apps.parity_reports.figures import json_number, short, ulps_cell
from augur_proof.compare import Comparison
from augur_proof.demand import Demand
from augur_proof.made_with import MadeWith


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
    """The table: a row for each prompt."""
    # The prompt is the one column that gives way.
    others = console.measure(_table(comparisons, prompt_width=1)).maximum - 1
    console.print(_table(comparisons, prompt_width=max(10, console.width - others)))


def _table(comparisons: list[Comparison], prompt_width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("prompt", no_wrap=True, overflow="ellipsis", max_width=prompt_width)
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
    return table


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


def _verdict(one: Comparison) -> Text:
    if not one.held:
        return Text("FAILED", style="bold red")
    return Text("near tie" if one.near_tie else "ok", style="green")


def _comparison_object(one: Comparison) -> dict[str, Any]:
    return {
        "held": one.held,
        "prompt": one.reference.prompt,
        "same_ids": one.id_parting is None,
        "id_parting": one.id_parting,
        "num_tokens": len(one.reference.generated_ids),
        "num_same_tokens": one.num_same_tokens,
        "token_parting": one.token_parting,
        "margin": None if one.margin is None else json_number(one.margin),
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
