"""A model that is handed all Triton kernels computes the same, interpreted."""

from typing import Any

import pytest

from augur_proof import DTYPES, KINDS, LONG_KINDS, PUBLISHED, scaled_down_config, tiny_config
from triton_trials import greedy_tokens, interpreting, shares_of_allowance

HEADS = ("num_attention_heads", "num_key_value_heads", "head_dim")


@pytest.fixture(scope="module")
def interpreted():
    with interpreting() as call:
        yield call


def model_of(kind: str) -> dict[str, Any]:
    if kind in PUBLISHED:
        return scaled_down_config(kind)
    return tiny_config(**(KINDS | LONG_KINDS)[kind])


def grouping(kind: str) -> tuple[int, int]:
    """Query heads to a key/value head, and how long a head is."""
    num_heads, num_kv_heads, head_dim = (scaled_down_config(kind)[key] for key in HEADS)
    return num_heads // num_kv_heads, head_dim


def num_heads(kind: str) -> int:
    return int(scaled_down_config(kind)["num_attention_heads"])


GROUPINGS = {grouping(kind): kind for kind in sorted(PUBLISHED, key=num_heads, reverse=True)}
"""One published size for each way of sharing heads, the one with fewest: each is interpreted."""


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("one head", "bfloat16"),
        pytest.param("window shorter than the prompt", "float16", marks=pytest.mark.gate),
        *(
            pytest.param(kind, dtype, marks=pytest.mark.gate)
            for kind in (*GROUPINGS.values(), *KINDS, *LONG_KINDS)
            for dtype in (DTYPES if kind in ("Qwen2.5-0.5B", "Qwen3-1.7B") else ["float32"])
        ),
    ],
)
def test_a_model_with_all_kernels_gives_the_references_logits(interpreted, kind, dtype):
    shares = interpreted(shares_of_allowance, model_of(kind), dtype)
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
