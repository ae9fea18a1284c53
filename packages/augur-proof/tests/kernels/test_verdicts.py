"""Every broken kernel is rejected, every right one accepted, in words that name what and where."""

from typing import Any

import pytest
import torch
from broken_kernels import BROKEN
from remembering import remembering
from right_kernels import RIGHT
from seven_norms import RIGHT_NORMS, WRONG_NORMS

from augur_proof.kernels import NULL_KERNELS, OPS, Op, Outcome, each_outcome
from augur_proof.kernels.trial import try_workload

DTYPES = [torch.float32, torch.bfloat16, torch.float16]

ALL_BROKEN = [(op, kernel, words) for op, some in BROKEN.items() for kernel, words in some.items()]
# What can be told within seconds is told in every run.
QUICK = {"rms_norm", "greedy_token"}


def said(outcome: Outcome) -> str:
    return f"{outcome.complaint}; {outcome.where}; {outcome.looks_like}"


def fails_with(kernel: Any, op: Op, words: str, dtypes: list[torch.dtype]) -> bool:
    return any(not one.held and words in said(one) for one in each_outcome(kernel, op, dtypes))


@pytest.mark.parametrize(
    ("name", "kernel", "words"),
    [
        pytest.param(
            *case,
            id=f"{case[0]}-{case[1].__name__}",
            marks=() if case[0] in QUICK else pytest.mark.gate,
        )
        for case in ALL_BROKEN
    ],
)
def test_a_broken_kernel_is_rejected_and_the_verdict_says_what_or_where(
    name: str, kernel: Any, words: str
) -> None:
    assert fails_with(kernel, OPS[name], words, DTYPES)


# Whose smallest workload is large.
_SLOW = ("sampled_token", "paged_attention")


@pytest.mark.gate
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_on_every_workload_right_kernels_hold_and_those_that_compute_nothing_do_not(
    name: str, dtype: torch.dtype
) -> None:
    op = OPS[name]
    right = {"the plain op": op.plain} | {one.__name__: one for one in RIGHT[name]}
    # All are tried on the same inputs, so that the oracle is computed once.
    for seed, workload in enumerate(op.workloads(dtype)):
        once = remembering(op)
        for known, kernel in right.items():
            outcome = try_workload(kernel, once, workload, seed=seed)
            assert outcome.held, f"{known}: {workload}: {said(outcome)}"
        for null, make in NULL_KERNELS.items():
            outcome = try_workload(make(op), once, workload, seed=seed)
            assert not outcome.held, f"{null}: {workload}"


@pytest.mark.parametrize("null", NULL_KERNELS)
@pytest.mark.parametrize("name", [name for name in OPS if name not in _SLOW])
def test_a_kernel_that_computes_nothing_is_rejected_on_the_smallest_workload(
    name: str, null: str
) -> None:
    op = OPS[name]
    workloads = op.workloads(torch.bfloat16)
    smallest = min(workloads, key=lambda one: torch.Size(one.axes.values()).numel())
    assert not try_workload(NULL_KERNELS[null](op), op, smallest).held


def test_there_are_as_many_as_a_proof_needs() -> None:
    assert len(ALL_BROKEN) >= 70
    assert sum(map(len, RIGHT.values())) >= 25
    assert set(BROKEN) == set(RIGHT) == set(OPS)


@pytest.mark.parametrize(
    "dtype",
    [pytest.param(one, marks=() if one == torch.bfloat16 else pytest.mark.gate) for one in DTYPES],
    ids=str,
)
@pytest.mark.parametrize("norm", [*RIGHT_NORMS, *WRONG_NORMS])
def test_seven_norms_come_out_right_in_every_dtype(norm: Any, dtype: torch.dtype) -> None:
    outcomes = each_outcome(norm, OPS["rms_norm"], [dtype])
    assert all(one.held for one in outcomes) == (norm in RIGHT_NORMS)
