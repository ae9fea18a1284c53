"""Measure Qwen inference: each optimisation a rung, with its gain and its numerical cost.

`Rung` is what a kernel on trial is written as; `climb` measures rungs, each in its own process.
"""

from augur_bench.compiled import compiled
from augur_bench.errors import BenchError, RungFailedError, RungUnavailableError
from augur_bench.ladder import LADDER, PEERS, REFERENCE
from augur_bench.measure import Climb, Reading, climb
from augur_bench.report import write_report
from augur_bench.result import as_json, result_object
from augur_bench.rung import Load, Rung, load_plain, uncached
from augur_bench.rung_choice import all_rungs, choose_pairs, choose_rungs
from augur_bench.settings import Settings, prompt_of_length, reference_prompts
from augur_bench.sweep import run_sweeps, sweep_lengths
from augur_bench.work import ModelSize

__all__ = [
    "LADDER",
    "PEERS",
    "REFERENCE",
    "BenchError",
    "Climb",
    "Load",
    "ModelSize",
    "Reading",
    "Rung",
    "RungFailedError",
    "RungUnavailableError",
    "Settings",
    "all_rungs",
    "as_json",
    "choose_pairs",
    "choose_rungs",
    "climb",
    "compiled",
    "load_plain",
    "prompt_of_length",
    "reference_prompts",
    "result_object",
    "run_sweeps",
    "sweep_lengths",
    "uncached",
    "write_report",
]
