"""Every Triton kernel passes the kit, and a model that is handed all of them computes the same.

Kernels are interpreted: what they mean is tried here, and `apps/gpu_check.py` tries the rest.
"""

from typing import Any

import pytest

from augur_proof import DTYPES, KINDS, LONG_KINDS, PUBLISHED, scaled_down_config, tiny_config
from triton_trials import (
    complaint,
    greedy_tokens,
    interpreting,
    shares_of_tolerance,
    workloads,
)

KERNELS = (
    *("rms_norm", "add_rms_norm", "apply_rope", "swiglu"),
    *("int8_linear", "int4_linear", "attention", "paged_attention"),
)
HEADS = ("num_attention_heads", "num_key_value_heads", "head_dim")
QUICK = 1
"""Workloads of each op and dtype in the default run: the smallest."""
IN_GATE = 8
"""And in the gate: half of them. The others take the interpreter a quarter of an hour, and a GPU
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
def test_a_kernel_holds_on_the_smaller_half_of_the_kits_workloads(interpreted, op, dtype):
    assert len(workloads(op, dtype)) > IN_GATE
    places = range(QUICK, IN_GATE)
    wrong = [said for place in places if (said := interpreted(complaint, op, dtype, place))]
    assert not wrong


@pytest.mark.parametrize("op", KERNELS)
def test_one_value_that_is_off_is_seen_through_the_same_door(interpreted, op):
    last = "row" if op.endswith("linear") or "norm" in op or op == "swiglu" else "channel"
    assert last in interpreted(complaint, op, "float16", 0, True)


def model_of(kind: str) -> dict[str, Any]:
    if kind in PUBLISHED:
        return scaled_down_config(kind)
    return tiny_config(**(KINDS | LONG_KINDS)[kind])


GROUPINGS = {
    tuple(scaled_down_config(name)[key] for key in ("model_type", *HEADS)): name
    for name in PUBLISHED
}
"""One published size for each way of sharing heads."""


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("one head", "bfloat16"),
        pytest.param("window shorter than the prompt", "float16", marks=pytest.mark.gate),
        *(
            pytest.param(kind, dtype, marks=pytest.mark.gate)
            for kind in (*GROUPINGS.values(), *KINDS, *LONG_KINDS)
            for dtype in (DTYPES if kind in ("Qwen2.5-0.5B", "Qwen3-0.6B") else ["float32"])
        ),
    ],
)
def test_a_model_with_all_kernels_gives_the_references_logits(interpreted, kind, dtype):
    shares = interpreted(shares_of_tolerance, model_of(kind), dtype)
    assert max(shares.values()) <= 1, shares


@pytest.mark.parametrize(
    "kind",
    [
        "one head",
        *(pytest.param(kind, marks=pytest.mark.gate) for kind in (*GROUPINGS.values(), *KINDS)),
    ],
)
def test_a_model_with_all_kernels_continues_as_the_reference_does(interpreted, kind):
    # In float32: in half precision two tokens may be equally likely to the last bit.
    expected, found = interpreted(greedy_tokens, model_of(kind), "float32")
    assert found == expected
