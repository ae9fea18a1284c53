"""Kernels on trial: a verdict on one op alone, over the shapes that Qwen models use."""

from collections.abc import Mapping
from types import MappingProxyType

from augur_proof.kernels.attention import ATTENTION
from augur_proof.kernels.budget import Errors, Judgement, Limits, judge
from augur_proof.kernels.elementwise import APPLY_ROPE, SWIGLU
from augur_proof.kernels.exchange import export, import_workload, read_workloads
from augur_proof.kernels.linear import INT4_LINEAR, INT8_LINEAR, LINEAR
from augur_proof.kernels.load_kernel import load_kernels
from augur_proof.kernels.null_kernels import NULL_KERNELS
from augur_proof.kernels.op import Expected, Kernel, Op, Workload, dtype_name
from augur_proof.kernels.paged_attention import PAGED_ATTENTION
from augur_proof.kernels.power import ERRORS, seen, smallest_seen
from augur_proof.kernels.rms_norm import ADD_RMS_NORM, RMS_NORM
from augur_proof.kernels.sampling import SAMPLED_TOKEN
from augur_proof.kernels.timing import Rate, time_workload
from augur_proof.kernels.token_choice import GREEDY_TOKEN
from augur_proof.kernels.trial import each_outcome, put_on_trial, try_workload
from augur_proof.kernels.verdict import Figures, Outcome, judge_outputs

_ALL = (
    *(RMS_NORM, ADD_RMS_NORM, APPLY_ROPE, SWIGLU, LINEAR, INT8_LINEAR, INT4_LINEAR),
    *(ATTENTION, PAGED_ATTENTION, GREEDY_TOKEN, SAMPLED_TOKEN),
)
OPS: Mapping[str, Op] = MappingProxyType({op.name: op for op in _ALL})
"""Every op that a kernel can be tried on, by name."""

__all__ = [
    "ERRORS",
    "NULL_KERNELS",
    "OPS",
    "Errors",
    "Expected",
    "Figures",
    "Judgement",
    "Kernel",
    "Limits",
    "Op",
    "Outcome",
    "Rate",
    "Workload",
    "dtype_name",
    "each_outcome",
    "export",
    "import_workload",
    "judge",
    "judge_outputs",
    "load_kernels",
    "put_on_trial",
    "read_workloads",
    "seen",
    "smallest_seen",
    "time_workload",
    "try_workload",
]
