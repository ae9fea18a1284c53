"""Check and trace tell right ops from wrong ones in half precision, where tolerances cannot."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from seven_norms import RIGHT_NORMS, WRONG_NORMS

from augur_model import EAGER, SDPA, Ops
from augur_proof import (
    ONE_OP,
    Answer,
    Comparison,
    GroundTruth,
    MadeWith,
    Pair,
    Referee,
    check,
    judge_ops,
    pair_of,
    tiny_config,
    trace,
    whole_model_demand,
    worst_calls,
)

pytest.importorskip("transformers")

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
OTHERS = [pytest.param(name, marks=pytest.mark.gate) for name in ("float32", "float16")]
PROMPT = torch.randint(128, (100,), generator=torch.Generator().manual_seed(5)).tolist()


@cache
def pair(dtype: str) -> Pair:
    """Wide enough for figures, and with embeddings as small as trained ones are."""
    sizes = {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 4}
    referee = Referee.random(tiny_config(**sizes), DTYPES[dtype])
    embeddings = referee.model.get_input_embeddings().weight.data
    embeddings.mul_(0.015 / embeddings.float().square().mean().sqrt())
    return pair_of(referee)


def with_norm(norm: Any) -> Ops:
    return replace(EAGER, rms_norm=norm)


def checked(dtype: str, ops: Ops) -> list[Comparison]:
    candidate, referee = pair(dtype).with_ops(ops)
    made_with = MadeWith("transformers", "tiny", dtype, "cpu", "eager", 6)
    truth = GroundTruth(made_with, [Answer("prompt", PROMPT, *referee.greedy(PROMPT, 6, ()))])
    demand = whole_model_demand(made_with, replace(made_with, engine="augur", attention="ours"))
    return check(candidate, truth, demand, encode=lambda _: PROMPT, eos_token_ids=())


@pytest.mark.parametrize("dtype", ["bfloat16", *OTHERS])
@pytest.mark.parametrize("norm", WRONG_NORMS)
def test_a_wrong_norm_is_seen_by_check_and_by_trace_in_every_dtype(norm: Any, dtype: str) -> None:
    candidate, referee = pair(dtype).with_ops(with_norm(norm))
    calls = judge_ops(candidate, PROMPT)
    assert {one.op for one in calls if not one.held} == {"rms_norm"}
    findings = trace(candidate, referee.record(PROMPT, 1), ONE_OP[DTYPES[dtype]], budget=True)
    assert {one.op for one in findings if not one.difference.held} == {"rms_norm"}


@pytest.mark.parametrize("dtype", ["bfloat16", *OTHERS])
@pytest.mark.parametrize("norm", RIGHT_NORMS)
def test_a_right_norm_holds_in_check_and_in_trace_in_every_dtype(norm: Any, dtype: str) -> None:
    ops = with_norm(norm)
    assert all(one.held for one in checked(dtype, ops))
    candidate, referee = pair(dtype).with_ops(ops)
    calls = judge_ops(candidate, PROMPT)
    # Two norms a layer and one at the end, for the prompt and for one step.
    assert [one.op for one in calls] == 2 * 5 * ["rms_norm"]
    assert all(one.held for one in calls)
    findings = trace(candidate, referee.record(PROMPT, 1), ONE_OP[DTYPES[dtype]], budget=True)
    assert [str(one.point) for one in findings if not one.difference.held] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_attention_holds_in_every_dtype(dtype: str) -> None:
    assert all(one.held for one in checked(dtype, SDPA))
    worst = {
        one.op: one for one in worst_calls(judge_ops(pair(dtype).with_ops(SDPA).candidate, PROMPT))
    }
    assert worst.keys() == {"linear", "attention"}
    assert all(one.held for one in worst.values())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_logits_that_err_more_than_the_references_own_are_too_far(dtype: str) -> None:
    def noisy(gate: Any, up: Any) -> Any:
        gated = EAGER.swiglu(gate, up)
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(gated.shape, generator=generator, dtype=torch.float32)
        return (gated.float() * (1 + 0.1 * noise)).to(gated.dtype)

    (right,) = checked(dtype, SDPA)
    (wrong,) = checked(dtype, replace(EAGER, swiglu=noisy))
    assert right.rms_ratio is not None
    assert wrong.rms_ratio is not None
    assert right.rms_ratio < 1.5
    assert wrong.rms_ratio > 3
    assert right.logits_held
    assert not wrong.logits_held


def test_the_references_own_ops_are_not_judged_by_themselves() -> None:
    assert judge_ops(pair("bfloat16").candidate, PROMPT) == []
    assert judge_ops(pair("bfloat16").with_ops(EAGER).candidate, PROMPT) == []


def test_a_verdict_in_a_model_says_what_and_where() -> None:
    norm = WRONG_NORMS[-1]
    (worst,) = worst_calls(judge_ops(pair("bfloat16").with_ops(with_norm(norm)).candidate, PROMPT))
    assert worst.complaint is not None
    assert "; row 64 and on" in worst.complaint
