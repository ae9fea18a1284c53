"""What a check prints: the setting, a row for each prompt, where they part, the verdict."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from augur_apps.parity_reports.figures import json_number, print_setting, short, ulps_cell
from augur_apps.parity_reports.partings_report import print_partings
from augur_proof import Comparison, Demand, MadeWith, OpBudget, worst_calls
from augur_tok import Tokenizer


def print_check(
    console: Console,
    ours: MadeWith,
    reference: MadeWith,
    file: Path | None,
    demand: Demand,
    found: list[Comparison],
    calls: list[OpBudget],
    tokenizer: Tokenizer,
) -> None:
    """The whole report; `file` holds the reference's answers, None where they were made now."""
    notes = []
    if demand.near_ties_may_part:
        closer = f"closer than {demand.tolerance}" if demand.budget else "closer than that"
        notes.append(f"           tokens may part where two logits are {closer}")
    if file is not None:
        notes.append(f"truth      {file}: logits of the first new token alone")
    machines = reference.differences(ours)
    if machines:
        notes.append(f"note       {'; '.join(machines)}: may change the last bits")
    print_setting(console, ours, reference, demand, "logits within {}", *notes)
    # The prompt is the one column that gives way.
    others = console.measure(_table(found, prompt_width=1)).maximum - 1
    console.print(_table(found, prompt_width=max(10, console.width - others)))
    print_partings(console, found, tokenizer)
    wrong = [one for one in worst_calls(calls) if not one.held]
    for one in worst_calls(calls):
        style = "green" if one.held else "bold red"
        words = "held" if one.held else f"FAILED: {one.complaint}"
        ratio = f"error at its worst {one.rms_ratio:.3g} times the plain op's"
        console.print(f"op {one.op} on the model's own inputs: {words}", style=style, markup=False)
        console.print(f"  {ratio}, {one.share:.0%} of its budget")
    num_failed = sum(not one.held for one in found)
    if num_failed:
        console.print(f"{num_failed} of {len(found)} prompts failed", style="bold red")
    elif wrong:
        ops = ", ".join(one.op for one in wrong)
        console.print(f"all {len(found)} prompts held, but not {ops}", style="bold red")
    else:
        console.print(f"all {len(found)} prompts held", style="green")


def _table(comparisons: list[Comparison], prompt_width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("prompt", no_wrap=True, overflow="ellipsis", max_width=prompt_width)
    table.add_column("ids", no_wrap=True)
    budget = any(one.rms_ratio is not None for one in comparisons)
    titles = ["tokens", "largest\nlogit diff", "ULPs", "KL\n(nats)", "logit\nrows"]
    for title in [*titles, "error/\nits own"] if budget else titles:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for number, one in enumerate(comparisons, start=1):
        verdict = Text("near tie" if one.near_tie else "ok", style="green")
        table.add_row(
            str(number),
            Text(" ".join(one.reference.prompt.split())),
            "same" if one.id_parting is None else "differ",
            f"{one.num_same_tokens}/{len(one.reference.generated_ids)}",
            short(one.logits.largest),
            ulps_cell(one.logits.ulps),
            short(one.kl_nats),
            str(one.num_steps),
            *([] if one.rms_ratio is None else [short(one.rms_ratio)]),
            verdict if one.held else Text("FAILED", style="bold red"),
        )
    return table


def check_object(
    ours: MadeWith,
    reference: MadeWith,
    file: Path | None,
    demand: Demand,
    found: list[Comparison],
    calls: list[OpBudget],
) -> dict[str, Any]:
    """Everything, as one object for JSON; arguments as of `print_check`."""
    return {
        "held": all(one.held for one in found) and all(one.held for one in calls),
        "candidate": ours.to_json(),
        "reference": {"file": None if file is None else str(file), **reference.to_json()},
        "demand": {
            "logits": str(demand.tolerance),
            "reasons": list(demand.reasons),
            **asdict(demand.tolerance),
            "budget": demand.budget,
        },
        "ops": [
            {"held": one.held, **asdict(one), "share": json_number(one.share)}
            | {"rms_ratio": json_number(one.rms_ratio)}
            for one in worst_calls(calls)
        ],
        "prompts": [_comparison_object(one) for one in found],
    }


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
        "rms_ratio": None if one.rms_ratio is None else json_number(one.rms_ratio),
        "reference_token_ids": one.reference.generated_ids,
        "token_ids": one.candidate.generated_ids,
    }
