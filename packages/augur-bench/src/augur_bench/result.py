"""The whole result as one object: what `--json` prints, and all that tables and figures draw on."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import chain
from typing import Any

from augur.devices import DTYPES, DTypeName
from augur_bench.ladder import PEERS
from augur_bench.limits import Limits
from augur_bench.measure import Climb, Reading
from augur_bench.settings import Settings
from augur_bench.spread import Spread, percentile
from augur_bench.throughput import Throughput
from augur_bench.work import Work
from augur_gen import Timings
from augur_proof.compare import allowed_rms_ratio

FORMAT = 3
"""Counted up when a key changes its meaning or goes."""


def result_object(
    model: str,
    settings: Settings,
    climbed: Climb,
    sweeps: Mapping[str, dict[str, Any]] | None = None,
    throughput: Throughput | None = None,
) -> dict[str, Any]:
    """Put a run's result together.

    Args:
        model: its name, as the user gave it.
        settings: of the run.
        climbed: what was seen of the rungs.
        sweeps: as `run_sweeps` gives them.
        throughput: as `run_throughput` gives it.
    """
    readings = {reading.rung.name: reading for group in climbed.groups for reading in group}
    run = {name: reading for name, reading in readings.items() if reading.missing is None}
    rungs = [
        _rung_object(reading, run.get(reading.rung.parent or ""), settings, climbed)
        for reading in run.values()
    ]
    config = settings.size.config
    shown = "max_new_tokens", "dtype", "rounds", "repeats", "rung_seconds", "check_tokens"
    return {
        "format": FORMAT,
        "environment": climbed.environment,
        "model": {
            "name": model,
            "num_parameters": settings.size.num_parameters,
            "num_layers": config.num_hidden_layers,
            "hidden_size": config.hidden_size,
            "vocab_size": config.vocab_size,
            "tie_word_embeddings": config.tie_word_embeddings,
        },
        "workload": {
            "prompt_tokens": len(settings.prompt_token_ids),
            "check_prompts": len(settings.prompts),
            **{name: getattr(settings, name) for name in shown},
        },
        "limits": asdict(climbed.limits),
        "work": {
            dtype: {
                phase: work and work._asdict()
                for phase, work in _least_work(settings, dtype).items()
            }
            for dtype in DTYPES
            if any(rung["dtype"] == dtype for rung in rungs)
        },
        "rungs": rungs,
        "left_out": [
            {"name": name, "reason": reason}
            for name, reason in (
                {name: reading.missing for name, reading in readings.items() if reading.missing}
                | (throughput.left_out if throughput else {})
            ).items()
        ],
        "pairs": [
            _pair_object(*group)
            for group in climbed.groups
            if len(group) == 2 and all(reading.missing is None for reading in group)
        ],
        "sweeps": dict(sweeps or {}),
        "throughput": throughput.points if throughput else [],
        "notes": notes(climbed.environment, rungs),
    }


def as_json(result: dict[str, Any]) -> str:
    """The object as text, with a line break behind it."""
    return json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def notes(environment: dict[str, Any], rungs: list[dict[str, Any]]) -> list[str]:
    """What a reader should know before believing the figures."""
    found = []
    load, cores = environment["load_average"], environment["cpu_count"]
    if load is not None and cores is not None and load > cores / 2:
        found.append(
            f"The machine was busy when the bench began (load {load:.1f} on {cores} cores): "
            "seconds and rates are rough."
        )
    for rung in rungs:
        for phase, share in rung["share"].items():
            if share is not None and share["of_roofline"]["low"] > 1:
                found.append(
                    f"{rung['name']}: {phase} is above the limit, so the limit was read too low; "
                    "the model fits a cache, or the machine was busier then."
                )
        if not rung["verdict"]["held"]:
            found.append(
                f"{rung['name']}: rounding does not explain how far its logits are from the "
                f"reference's: {rung['verdict']['share']:.2g} times what is allowed."
            )
        if not rung["same_tokens_every_run"]:
            found.append(f"{rung['name']}: its runs did not all choose the same tokens.")
        elif not rung["same_logits_every_run"]:
            found.append(
                f"{rung['name']}: its runs did not all give the same logits; those of its first "
                "process were compared."
            )
    return found


def _rung_object(
    reading: Reading, parent: Reading | None, settings: Settings, climbed: Climb
) -> dict[str, Any]:
    """All that is reported of a rung; its parent is None where that was not run."""
    rung, rounds, timings = reading.rung, reading.rounds, reading.timings
    warm_up_s = [one.warm_up.timings.token_s for one in rounds]
    runs = [(number, run) for number, one in enumerate(rounds) for run in one.runs]
    decoded_s = list(chain.from_iterable(one.token_s[1:] for one in timings))
    dtype = settings.dtype_of(rung)
    return {
        "name": rung.name,
        "changes": rung.changes,
        "parent": rung.parent,
        "peer": rung.name in PEERS,
        "dtype": dtype,
        "load_s": asdict(Spread.of(one.load_s for one in rounds)),
        "warm_up_s": asdict(Spread.of(map(sum, warm_up_s))),
        # The first decode step: compilation, and one step beside it.
        "compile_s": asdict(Spread.of(one[1] for one in warm_up_s)) if rung.compiles else None,
        **{key: _optional(_spread(key, timings)) for key in _FIGURES},
        "token_s": {"p50": percentile(decoded_s, 50), "p95": percentile(decoded_s, 95)},
        "peak_memory_bytes": _most(run.peak_bytes for _, run in runs),
        "peak_memory_holds_loading": not all(one.peak_was_reset for one in rounds),
        "load_peak_memory_bytes": _most(one.warm_up.peak_bytes for one in rounds),
        "gain": None if parent is None else _gain(reading, parent),
        "share": _shares(timings, dtype, settings, climbed.limits),
        "exactness": reading.exactness,
        "verdict": _verdict(reading.exactness or {}, climbed.plain_rms.get(dtype)),
        "token_ids": runs[0][1].token_ids,
        "same_tokens_every_run": all(run.token_ids == runs[0][1].token_ids for _, run in runs),
        "same_logits_every_run": all(run.row_sums == runs[0][1].row_sums for _, run in runs),
        "runs": [
            {
                "round": number,
                "prefill_s": run.timings.prefill_s,
                "token_s": list(run.timings.token_s),
            }
            for number, run in runs
        ],
    }


def _verdict(exactness: dict[str, Any], plain_rms: float | None) -> dict[str, Any]:
    """Whether rounding explains how far the logits are from the reference's.

    In float32 by a tolerance, in half precision by the plain ops' own error there.
    """
    share: float = exactness["share_of_tolerance"]
    if plain_rms:
        allowed = plain_rms * allowed_rms_ratio(exactness["num_positions"])
        share = exactness["rms_diff"] / allowed
    return {"held": share <= 1, "share": share}


_FIGURES = "prefill_s", "ttft_s", "prefill_tokens_per_s", "decode_tokens_per_s"


def _spread(key: str, timings: list[Timings]) -> Spread | None:
    return Spread.of_known(getattr(one, key) for one in timings)


def _optional(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else asdict(spread)


def _gain(ours: Reading, parent: Reading) -> dict[str, Any]:
    """Round by round, which keeps the machine's drift from one to the next out of it."""
    found: dict[str, list[Spread]] = {"prefill": [], "decode": []}
    for our_round, parents_round in zip(ours.rounds, parent.rounds, strict=True):
        for phase, gains in found.items():
            mine, theirs = (
                _spread(f"{phase}_tokens_per_s", one.timings) for one in (our_round, parents_round)
            )
            if mine is not None and theirs is not None:
                gains.append(mine.over(theirs))
    return {
        phase: asdict(Spread.across(gains)) if gains else None for phase, gains in found.items()
    }


def _pair_object(ours: Reading, theirs: Reading) -> dict[str, Any]:
    """How many times faster ours is, run by run, as they stood side by side."""
    found: dict[str, Any] = {"ours": ours.rung.name, "theirs": theirs.rung.name}
    for phase in ("prefill", "ttft", "decode"):
        ratios = [
            getattr(other, f"{phase}_s") / seconds if seconds else None
            for mine, other in zip(ours.timings, theirs.timings, strict=True)
            for seconds in [getattr(mine, f"{phase}_s")]  # 0 where a single token was decoded
        ]
        found[phase] = _optional(Spread.of_known(ratios))
    return found


def _shares(
    timings: list[Timings], dtype: DTypeName, settings: Settings, limits: Limits
) -> dict[str, Any]:
    num_new = settings.max_new_tokens
    seconds = {
        "prefill": [one.prefill_s for one in timings],
        "decode": [one.decode_s / max(1, num_new - 1) for one in timings],
    }
    return {
        phase: work and limits.share(work, Spread.of(seconds[phase]), dtype)
        for phase, work in _least_work(settings, dtype).items()
    }


def _least_work(settings: Settings, dtype: DTypeName) -> dict[str, Work | None]:
    num_prompt, num_new = len(settings.prompt_token_ids), settings.max_new_tokens
    return settings.size.least_work(num_prompt, num_new, DTYPES[dtype])


def _most(peaks: Iterable[int | None]) -> int | None:
    return max((peak for peak in peaks if peak is not None), default=None)
