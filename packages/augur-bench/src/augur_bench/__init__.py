"""Measure Qwen inference: each optimisation a rung, with its gain and its numerical cost.

`Rung` is what a kernel on trial is written as; `climb` measures rungs, each in its own process.
"""

from augur_bench.compiled import compiled
from augur_bench.cuda_graph import cuda_graph
from augur_bench.errors import BenchError, RungFailedError, RungUnavailableError
from augur_bench.ladder import LADDER
from augur_bench.measure import climb
from augur_bench.report import write_report
from augur_bench.result import as_json, result_object
from augur_bench.rung import Rung, uncached
from augur_bench.rung_choice import choose_pairs, choose_rungs
from augur_bench.settings import Settings
from augur_bench.sweep import run_sweeps, sweep_lengths
from augur_bench.throughput import questions, run_throughput, throughput_rungs

__all__ = [
    "LADDER",
    "BenchError",
    "Rung",
    "RungFailedError",
    "RungUnavailableError",
    "Settings",
    "as_json",
    "choose_pairs",
    "choose_rungs",
    "climb",
    "compiled",
    "cuda_graph",
    "questions",
    "result_object",
    "run_sweeps",
    "run_throughput",
    "sweep_lengths",
    "throughput_rungs",
    "uncached",
    "write_report",
]
