"""A kernel on trial cannot see its inputs before, keep what it gave, or hide where it writes."""

from dataclasses import fields
from typing import Any

import pytest
import torch

from augur_model import Ops
from augur_proof import ProofError
from augur_proof.kernels import NULL_KERNELS, OPS, Workload, load_kernels, try_workload
from augur_proof.kernels.timing import time_workload

NORM = OPS["rms_norm"]
ROWS = {"batch": 2, "rows": 17, "width": 896}


def workload(dtype: torch.dtype = torch.float32, **changes: Any) -> Workload:
    return Workload("rms_norm", dtype, ROWS, scalars={"eps": 1e-6}, **changes)


def test_inputs_are_others_each_time_and_a_seed_brings_them_back() -> None:
    seen: list[float] = []

    def kernel(x: Any, weight: Any, eps: float) -> Any:
        seen.append(float(x.sum()))
        return NORM.plain(x, weight, eps)

    first = try_workload(kernel, NORM, workload())
    again = try_workload(kernel, NORM, workload())
    assert first.seed != again.seed
    assert len(set(seen)) == 4  # two sets a trial; the second of each is given twice
    before = seen[:3]
    seen.clear()
    try_workload(kernel, NORM, workload(), seed=first.seed)
    assert seen == before


def test_what_falls_back_on_torchs_own_operator_is_named_and_what_does_not_is_not() -> None:
    fused = try_workload(
        lambda x, w, eps: torch.nn.functional.rms_norm(x, w.shape, w, eps), NORM, workload()
    )
    assert fused.held
    assert fused.falls_back_on
    assert not try_workload(NORM.plain, NORM, workload()).falls_back_on


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_verdict_says_which_rounding_order_a_norm_follows(dtype: torch.dtype) -> None:
    fused = try_workload(
        lambda x, w, eps: torch.nn.functional.rms_norm(x, w.shape, w, eps), NORM, workload(dtype)
    )
    plain = try_workload(NORM.plain, NORM, workload(dtype))
    assert fused.semantics == "weight before rounding back"
    assert plain.semantics == "weight after rounding back"


def test_memory_that_a_kernel_is_given_holds_no_answer_and_no_zeros() -> None:
    def reads_what_was_there(x: Any, weight: Any, eps: float) -> Any:
        out = torch.empty_like(x)
        out += NORM.plain(x, weight, eps)
        return out

    assert not try_workload(reads_what_was_there, NORM, workload()).held


def test_a_kernel_that_raises_is_told_in_one_line() -> None:
    outcome = try_workload(lambda x, *_: x.view(3, 7), NORM, workload())
    assert outcome.complaint is not None
    assert outcome.complaint.startswith("it raised RuntimeError: ")


def test_running_out_of_memory_is_no_verdict() -> None:
    def greedy(*_: Any) -> Any:
        raise MemoryError

    with pytest.raises(MemoryError):
        try_workload(greedy, NORM, workload())


@pytest.mark.gate
def test_what_is_timed_is_checked_again_and_what_is_too_fast_is_not_believed() -> None:
    large = Workload("rms_norm", torch.float32, ROWS | {"rows": 500}, scalars={"eps": 1e-6})
    kept: list[Any] = []

    def once(x: Any, weight: Any, eps: float) -> Any:
        """Right the first time it is called, then what it gave before."""
        kept.append(NORM.plain(x, weight, eps)) if not kept else None
        return kept[0]

    cheat = time_workload(once, NORM, large)
    assert not cheat.believable
    right = time_workload(NORM.plain, NORM, large)
    assert right.believable
    assert right.check.held
    late = time_workload(NULL_KERNELS["the previous answer"](NORM), NORM, large)
    assert not late.check.held


MODULE = """
from dataclasses import replace
from augur_model import EAGER
def two(x, weight): return x
def norm(x, weight, eps): return EAGER.rms_norm(x, weight, eps)
TABLE = replace(EAGER, rms_norm=norm)
SOME = {"rms_norm": norm, "swiglu": EAGER.swiglu}
WRONG = {"rms_nrom": norm}
NUMBER = 3
"""


@pytest.fixture
def _module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels_to_load.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("_module")
def test_kernels_are_found_by_name_alone_or_in_tables() -> None:
    assert list(load_kernels("kernels_to_load:norm", OPS, "rms_norm")) == ["rms_norm"]
    assert set(load_kernels("kernels_to_load:TABLE", OPS)) == {one.name for one in fields(Ops)}
    assert list(load_kernels("kernels_to_load:SOME", OPS)) == ["rms_norm", "swiglu"]
    assert list(load_kernels("kernels_to_load:SOME", OPS, "swiglu")) == ["swiglu"]


@pytest.mark.usefixtures("_module")
@pytest.mark.parametrize(
    ("name", "op", "words"),
    [
        ("norm", None, "say with --op which op norm replaces"),
        ("norm", "nrom", "--op nrom: no such op, expected one of rms_norm, "),
        ("nothing", "rms_norm", "nothing does not exist, expected a function"),
        ("two", "rms_norm", "it takes .x, weight., and rms_norm is called as rms_norm.hidden_st"),
        ("NUMBER", "rms_norm", "rms_norm is a int, expected a function"),
        ("SOME", "linear", "SOME has no linear; it has rms_norm, swiglu"),
        ("WRONG", None, "WRONG has an entry rms_nrom, which is no op"),
    ],
)
def test_what_cannot_be_tried_is_refused_with_what_to_do(
    name: str, op: str | None, words: str
) -> None:
    with pytest.raises(ProofError, match=words):
        load_kernels(f"kernels_to_load:{name}", OPS, op)
