"""Every Triton kernel passes the kit, and a model that is handed all of them computes the same.

Kernels are interpreted: what they mean is tried here, and `apps/gpu_check.py` tries the rest.
"""

import pytest
import torch
from triton_trials import complaint, difference_of_models, interpreting, workloads

from augur_proof import DTYPES, KINDS, LONG_KINDS, PUBLISHED, scaled_down_config, tiny_config

KERNELS = (
    *("rms_norm", "add_rms_norm", "apply_rope", "swiglu"),
    *("int8_linear", "int4_linear", "attention"),
)
QUICK = 2
"""Workloads of each op and dtype in the default run: the smallest; the gate takes all."""


@pytest.fixture(scope="module")
def interpreted():
    with interpreting() as call:
        yield call


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", KERNELS)
def test_a_kernel_holds_on_the_kits_smallest_workloads(interpreted, op, dtype):
    found = [interpreted(complaint, op, dtype, place) for place in range(QUICK)]
    assert found == [None] * QUICK


@pytest.mark.gate
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", KERNELS)
def test_a_kernel_holds_on_all_of_the_kits_workloads(interpreted, op, dtype):
    places = range(QUICK, len(workloads(op, dtype)))
    wrong = [said for place in places if (said := interpreted(complaint, op, dtype, place))]
    assert len(places) >= 8
    assert not wrong


@pytest.mark.parametrize("op", KERNELS)
def test_one_value_that_is_off_is_seen_through_the_same_door(interpreted, op):
    last = "row" if op.endswith("linear") or "norm" in op or op == "swiglu" else "channel"
    assert last in interpreted(complaint, op, "bfloat16", 1, True)


def model_of(kind: str) -> dict:
    if kind in PUBLISHED:
        return scaled_down_config(kind)
    return tiny_config(**(KINDS | LONG_KINDS)[kind])


QUICK_MODELS = ["Qwen2.5-0.5B", "window shorter than the prompt"]
OTHER_MODELS = [name for name in (*PUBLISHED, *KINDS, *LONG_KINDS) if name not in QUICK_MODELS]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "kind", [*QUICK_MODELS, *(pytest.param(kind, marks=pytest.mark.gate) for kind in OTHER_MODELS)]
)
def test_a_model_with_all_kernels_gives_the_references_logits_and_tokens(interpreted, kind, dtype):
    shares, same_tokens = interpreted(difference_of_models, model_of(kind), dtype)
    assert max(shares.values()) <= 1, shares
    # In half precision two tokens may be as likely as each other, to the last bit of the logits.
    assert same_tokens or DTYPES[dtype] != torch.float32
