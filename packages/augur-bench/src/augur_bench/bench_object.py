"""The whole result as one object: what `--json` prints, and all that tables and figures draw on."""

import json
from dataclasses import asdict
from typing import Any

from augur.devices import DTYPES
from augur_bench.environment import machine_environment
from augur_bench.limits import Limits
from augur_bench.measure import Reading
from augur_bench.rung_object import pair_object, rung_object
from augur_bench.settings import Settings
from augur_bench.sweep import Point, ratio_grows
from augur_bench.work import ModelSize

FORMAT = 2
"""Counted up when a key changes its meaning or goes."""


def bench_object(
    model: str,
    settings: Settings,
    size: ModelSize,
    environment: dict[str, Any],
    limits: Limits,
    groups: list[list[Reading]],
    sweeps: dict[str, list[Point]],
) -> dict[str, Any]:
    """Put a run's result together.

    Args:
        model: its name, as the user gave it.
        settings: of the run.
        size: of the model.
        environment: of the machine and of the processes that computed.
        limits: of the machine.
        groups: readings, those together that were measured side by side.
        sweeps: by name.
    """
    readings = {reading.rung.name: reading for group in groups for reading in group}
    run = {name: reading for name, reading in readings.items() if reading.missing is None}
    rungs = [
        rung_object(
            reading,
            run.get(reading.rung.parent or ""),
            settings.dtype_of(reading.rung),
            size,
            limits,
        )
        for reading in run.values()
    ]
    return {
        "format": FORMAT,
        "environment": environment,
        "model": _model_object(model, size),
        "workload": _workload_object(settings),
        "limits": asdict(limits),
        "work": _work_object(settings, size, {rung["dtype"] for rung in rungs}),
        "rungs": rungs,
        "left_out": [
            {"name": name, "reason": reading.missing}
            for name, reading in readings.items()
            if reading.missing is not None
        ],
        "pairs": [
            pair_object(*group)
            for group in groups
            if len(group) == 2 and all(reading.missing is None for reading in group)
        ],
        "sweeps": {
            name: {
                "points": [asdict(point) for point in points],
                "ratio_grows": ratio_grows(points),
            }
            for name, points in sweeps.items()
        },
        "notes": notes(environment, rungs),
    }


def as_json(result: dict[str, Any]) -> str:
    """The object as text, with a line break behind it."""
    return json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def run_environment(compute: dict[str, Any]) -> dict[str, Any]:
    """Of this machine now, and of a process that computes."""
    return machine_environment() | compute


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
        for phase in ("prefill", "decode"):
            share = rung["share"][phase]
            if share is not None and share["of_roofline"]["low"] > 1:
                found.append(
                    f"{rung['name']}: {phase} is above the limit, so the limit was read too low; "
                    "the model fits a cache, or the machine was busier then."
                )
        if not rung["same_tokens_every_run"]:
            found.append(f"{rung['name']}: its runs did not all choose the same tokens.")
        elif not rung["same_logits_every_run"]:
            found.append(
                f"{rung['name']}: its runs did not all give the same logits; those of its first "
                "process were compared."
            )
    return found


def _model_object(model: str, size: ModelSize) -> dict[str, Any]:
    config = size.config
    return {
        "name": model,
        "num_parameters": size.num_parameters,
        "num_layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "tie_word_embeddings": config.tie_word_embeddings,
    }


def _workload_object(settings: Settings) -> dict[str, Any]:
    return {
        "prompt_tokens": len(settings.workload.prompt_token_ids),
        "max_new_tokens": settings.max_new_tokens,
        "dtype": settings.dtype,
        "rounds": settings.rounds,
        "repeats": settings.repeats,
        "rung_seconds": settings.rung_seconds,
        "check_prompts": len(settings.workload.check_prompts),
        "check_tokens": settings.check_tokens,
    }


def _work_object(settings: Settings, size: ModelSize, dtypes: set[str]) -> dict[str, Any]:
    num_prompt, num_new = len(settings.workload.prompt_token_ids), settings.max_new_tokens
    found: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        if name in dtypes:
            prefill = size.prefill_work(num_prompt, dtype)
            with_all_logits = size.prefill_work(num_prompt, dtype, all_logits=True)
            decode = size.decode_work(num_prompt, num_new, dtype) if num_new > 1 else None
            found[name] = {
                "prefill_bytes": prefill.num_bytes,
                "prefill_flops_per_token": prefill.flops / num_prompt,
                "prefill_flops_per_token_all_logits": with_all_logits.flops / num_prompt,
                "decode_bytes_per_token": None if decode is None else decode.num_bytes,
                "decode_flops_per_token": None if decode is None else decode.flops,
            }
    return found
