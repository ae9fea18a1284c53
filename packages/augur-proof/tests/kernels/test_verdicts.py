"""Every broken kernel is rejected, every right one accepted, in words that name what and where."""

from typing import Any

import pytest
import torch
from broken_kernels import BROKEN
from right_kernels import RIGHT
from seven_norms import RIGHT_NORMS, WRONG_NORMS

from augur_proof.kernels import NULL_KERNELS, OPS, Op, Outcome, each_outcome, put_on_trial
from augur_proof.kernels.trial import try_workload

DTYPES = [torch.float32, torch.bfloat16, torch.float16]

ALL_BROKEN = [(op, kernel, words) for op, some in BROKEN.items() for kernel, words in some.items()]
ALL_RIGHT = [(op, kernel) for op, some in RIGHT.items() for kernel in some]
# What can be told within seconds is told in every run.
QUICK = {"rms_norm", "greedy_token"}


def sampled(cases: list[Any]) -> list[Any]:
    """Cases of every op; those that take long wait for the gate."""
    return [
        pytest.param(
            *case,
            id=f"{case[0]}-{case[1].__name__}",
            marks=() if case[0] in QUICK and len(case) == 3 else pytest.mark.gate,
        )
        for case in cases
    ]


def said(outcome: Outcome) -> str:
    return f"{outcome.complaint}; {outcome.where}; {outcome.looks_like}"


def fails_with(kernel: Any, op: Op, words: str, dtypes: list[torch.dtype]) -> bool:
    return any(not one.held and words in said(one) for one in each_outcome(kernel, op, dtypes))


@pytest.mark.parametrize(("name", "kernel", "words"), sampled(ALL_BROKEN))
def test_a_broken_kernel_is_rejected_and_the_verdict_says_what_or_where(
    name: str, kernel: Any, words: str
) -> None:
    assert fails_with(kernel, OPS[name], words, DTYPES)


@pytest.mark.gate
@pytest.mark.parametrize(("name", "kernel"), sampled(ALL_RIGHT))
def test_a_right_kernel_is_accepted_on_every_workload(name: str, kernel: Any) -> None:
    assert [said(one) for one in put_on_trial(kernel, OPS[name]) if not one.held] == []


# Whose smallest workload is large.
_SLOW = ("sampled_token", "paged_attention")


@pytest.mark.gate
@pytest.mark.parametrize("name", OPS)
def test_the_plain_op_is_accepted_on_every_workload(name: str) -> None:
    op = OPS[name]
    assert [said(one) for one in put_on_trial(op.plain, op) if not one.held] == []


@pytest.mark.gate
@pytest.mark.parametrize("null", NULL_KERNELS)
@pytest.mark.parametrize("name", OPS)
def test_a_kernel_that_computes_nothing_is_rejected_on_every_workload(name: str, null: str) -> None:
    op = OPS[name]
    passed = [
        str(workload)
        for dtype in DTYPES
        for workload in op.workloads(dtype)
        if try_workload(NULL_KERNELS[null](op), op, workload).held
    ]
    assert passed == []


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
    assert len(ALL_RIGHT) >= 25
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
