"""Every Triton kernel passes the kit.

Kernels are interpreted: what they mean is tried here, and `apps/gpu_check.py` tries the rest.
"""

import pytest

from augur_proof import DTYPES
from triton_trials import complaint, interpreting, workloads

KERNELS = (
    *("rms_norm", "add_rms_norm", "apply_rope", "swiglu"),
    *("int8_linear", "int4_linear", "attention", "paged_attention"),
)
QUICK = 1
"""Workloads of each op and dtype in the default run: the smallest."""
IN_GATE = 4
"""And in the gate: some of them. The others take the interpreter a quarter of an hour, and a GPU
moments: see `apps/gpu_check.py`."""


@pytest.fixture(scope="module")
def interpreted():
    with interpreting() as call:
        yield call


@pytest.mark.parametrize(
    "dtype",
    ["bfloat16", *(pytest.param(one, marks=pytest.mark.gate) for one in ("float32", "float16"))],
)
@pytest.mark.parametrize("op", KERNELS)
def test_a_kernel_holds_on_the_kits_smallest_workload(interpreted, op, dtype):
    found = [interpreted(complaint, op, dtype, place) for place in range(QUICK)]
    assert found == [None] * QUICK


@pytest.mark.gate
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", KERNELS)
def test_a_kernel_holds_on_the_smaller_ones_of_the_kits_workloads(interpreted, op, dtype):
    assert len(workloads(op, dtype)) > IN_GATE
    places = range(QUICK, IN_GATE)
    wrong = [said for place in places if (said := interpreted(complaint, op, dtype, place))]
    assert not wrong


@pytest.mark.parametrize("op", KERNELS)
def test_one_value_that_is_off_is_seen_through_the_same_door(interpreted, op):
    last = "row" if op.endswith("linear") or "norm" in op or op == "swiglu" else "channel"
    assert last in interpreted(complaint, op, "float16", 0, True)
