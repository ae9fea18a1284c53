"""A trace names the module or the op that is wrong, and nothing that merely follows from it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from augur_gen import StaticKVCache
from augur_model import EAGER, SDPA, DecoderLayer, Ops
from augur_model.ops import apply_rope
from augur_proof import (
    EXACT,
    LONG_KINDS,
    ONE_OP,
    PREFILL_TWINS,
    Candidate,
    Finding,
    OpFailedError,
    Pass,
    ProofError,
    Referee,
    pair_of,
    tiny_config,
    trace,
)
from augur_proof.broken_twins import ATTENTION_TWINS, MLP_TWINS, NORM_TWINS, ROTATION_TWINS

pytest.importorskip("transformers")

PROMPT = [10, 20, 30, 40, 50]
NUM_LAYERS = 9
SETTINGS = {"num_hidden_layers": NUM_LAYERS}


@pytest.fixture(scope="module")
def passes(checkpoint: Path) -> list[Pass]:
    """The prompt and two decode steps."""
    return Referee.load(checkpoint, dtype=torch.float32).record(PROMPT, 2)


@pytest.fixture
def candidate(checkpoint: Path) -> Candidate:
    return Candidate.load(checkpoint, dtype=torch.float32)


def failed(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if not one.difference.held]


def failed_places(findings: list[Finding]) -> set[str]:
    return {str(one.point) for one in failed(findings)}


def test_every_output_of_an_equal_network_is_held_to_the_bit(
    candidate: Candidate, passes: list[Pass]
) -> None:
    findings = trace(candidate, passes, EXACT)
    assert not failed(findings)
    # Three passes over nine layers of nineteen points, and five points around them.
    assert len(findings) == 3 * (NUM_LAYERS * 19 + 5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_dtypes_are_held_to_the_bit_too(checkpoint: Path, dtype: torch.dtype) -> None:
    candidate, referee = (side.load(checkpoint, dtype=dtype) for side in (Candidate, Referee))
    assert not failed(trace(candidate, referee.record(PROMPT, 1), EXACT))


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3"])
@pytest.mark.parametrize("kind", LONG_KINDS)
def test_windows_yarn_and_head_norms_are_held_to_the_bit_too(kind: str, model_type: str) -> None:
    config = tiny_config(model_type=model_type, head_dim=16, **LONG_KINDS[kind])
    candidate, referee = pair_of(Referee.random(config))
    findings = trace(candidate, referee.record(list(range(100)), 2), EXACT)
    assert len(findings) > 3 * 19 * 2
    assert not failed(findings)


@pytest.mark.parametrize(
    ("tensor", "module", "op"),
    [
        ("model.layers.7.mlp.down_proj.weight", "model.layers.7.mlp.down_proj", "linear"),
        ("model.layers.7.self_attn.k_proj.bias", "model.layers.7.self_attn.k_proj", "linear"),
        ("model.layers.7.self_attn.o_proj.weight", "model.layers.7.self_attn.o_proj", "linear"),
        ("model.norm.weight", "model.norm", "rms_norm"),
    ],
)
def test_one_changed_weight_is_located_on_whichever_side_it_is(
    checkpoint: Path, candidate: Candidate, passes: list[Pass], tensor: str, module: str, op: str
) -> None:
    referee = Referee.load(checkpoint, dtype=torch.float32)
    for side in (candidate, referee):
        side.model.get_parameter(tensor).view(-1)[5] += 0.5
    for findings in (
        trace(candidate, passes, EXACT),
        trace(Candidate.load(checkpoint, dtype=torch.float32), referee.record(PROMPT, 1), EXACT),
    ):
        first = failed(findings)[0]
        assert (str(first.point), first.op) == (module, op)
        assert first.difference.ulps is not None
        assert first.difference.ulps > 0
        assert failed_places(findings) == {module}


def test_a_changed_weight_is_found_in_every_pass_and_placed_by_token_and_channel(
    candidate: Candidate, passes: list[Pass]
) -> None:
    # The number changed is that of input 5 for output 0.
    candidate.model.get_parameter("model.layers.7.mlp.down_proj.weight")[0, 5] += 0.5
    prefill, *steps = failed(trace(candidate, passes, EXACT))
    assert prefill.pass_label == "prefill of 5 tokens"
    assert [one.pass_label for one in steps] == ["decode step 1", "decode step 2"]
    assert prefill.difference.num_differing == 5
    assert {one.difference.index[-1] for one in (prefill, *steps)} == {0}
    assert [one.first_position for one in (prefill, *steps)] == [0, 5, 6]
    found = prefill.difference
    assert found.largest == abs(found.ours - found.reference)


def _rotated_wrong_for_four_heads(heads: Any, cos: Any, sin: Any) -> Any:
    rotated = apply_rope(heads, cos, sin)
    return -rotated if heads.shape[1] == 4 else rotated


NORM, LAYER = "model.layers.0.input_layernorm", "model.layers.0.self_attn"
WRONG_OPS: dict[str, tuple[Ops, str, str]] = {
    **{name: (ops, NORM, "rms_norm") for name, ops in NORM_TWINS.items()},
    **{
        name: (ops, f"{LAYER}:apply_rope(query)", "apply_rope")
        for name, ops in ROTATION_TWINS.items()
    },
    "the query alone rotated wrongly": (
        replace(EAGER, apply_rope=_rotated_wrong_for_four_heads),
        f"{LAYER}:apply_rope(query)",
        "apply_rope",
    ),
    **{
        name: (ops, f"{LAYER}:attention", "attention")
        for name, ops in (ATTENTION_TWINS | PREFILL_TWINS).items()
        if name != "biases forgotten"
    },
    "biases forgotten": (ATTENTION_TWINS["biases forgotten"], f"{LAYER}.q_proj", "linear"),
    **{name: (ops, "model.layers.0.mlp:swiglu", "swiglu") for name, ops in MLP_TWINS.items()},
}


@pytest.mark.parametrize("name", WRONG_OPS)
def test_a_wrong_op_is_named_where_it_first_computes_and_no_other_is(
    candidate: Candidate, passes: list[Pass], name: str
) -> None:
    ops, place, op = WRONG_OPS[name]
    findings = trace(candidate.with_ops(ops), passes, ONE_OP[torch.float32])
    first = failed(findings)[0]
    assert (str(first.point), first.op) == (place, op)
    assert {one.op for one in failed(findings)} == {op}


def test_a_right_implementation_is_held_within_one_ops_tolerance_and_not_to_the_bit(
    candidate: Candidate, passes: list[Pass]
) -> None:
    fused = candidate.with_ops(SDPA)
    assert not failed(trace(fused, passes, ONE_OP[torch.float32]))
    assert failed(trace(fused, passes, EXACT))


BROKEN_OPS: dict[str, tuple[Ops, str]] = {
    "raises": (
        replace(EAGER, swiglu=lambda gate, _up: gate.reshape(3, 7)),
        "model.layers.0.mlp: op swiglu raised RuntimeError: shape",
    ),
    "gives nothing": (
        replace(EAGER, rms_norm=lambda *_: None),
        "model.layers.0.input_layernorm: op rms_norm gave NoneType, expected [1, 5, 32] float32",
    ),
    "gives another dtype": (
        replace(EAGER, apply_rope=lambda *args: apply_rope(*args).double()),
        "op apply_rope gave [1, 4, 5, 8] float64 on cpu, expected [1, 4, 5, 8] float32 on cpu",
    ),
    "gives another shape": (
        replace(EAGER, attention=lambda *args: EAGER.attention(*args)[:, :, :1]),
        "self_attn: op attention gave [1, 4, 1, 8] float32 on cpu, expected [1, 4, 5, 8]",
    ),
    "takes too little": (
        replace(EAGER, linear=lambda inputs: inputs),
        "model.layers.0.self_attn.q_proj: op linear raised TypeError: ",
    ),
}


@pytest.mark.parametrize("way", BROKEN_OPS)
def test_an_op_that_breaks_is_named_with_its_module(
    candidate: Candidate, passes: list[Pass], way: str
) -> None:
    ops, message = BROKEN_OPS[way]
    with pytest.raises(OpFailedError) as caught:
        trace(candidate.with_ops(ops), passes, EXACT)
    assert message in str(caught.value)
    # The candidate that it came from is as before.
    assert not failed(trace(candidate, passes, EXACT))


def test_a_cache_that_gives_back_something_else_is_named(
    candidate: Candidate, passes: list[Pass], monkeypatch: pytest.MonkeyPatch
) -> None:
    update = StaticKVCache.update

    def forget_the_first_token(cache: StaticKVCache, layer_index: int, *new: Any) -> Any:
        keys, values = update(cache, layer_index, *new)
        if layer_index == 4 and cache.length:
            values = values.clone()
            values[:, :, 0] = 0
        return keys, values

    monkeypatch.setattr(StaticKVCache, "update", forget_the_first_token)
    findings = trace(candidate, passes, EXACT)
    assert failed_places(findings) == {"model.layers.4.self_attn:cache(values)"}
    first = failed(findings)[0]
    assert (first.pass_label, first.difference.index[-2]) == ("decode step 1", 0)


def test_a_wrong_residual_is_named(
    candidate: Candidate, passes: list[Pass], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget_the_residual(layer: DecoderLayer, hidden_states: Any, *rest: Any) -> Any:
        normed = layer.input_layernorm(hidden_states, rest[-1])
        hidden_states = layer.self_attn(normed, *rest)
        normed = layer.post_attention_layernorm(hidden_states, rest[-1])
        return layer.mlp(normed, rest[-1])

    monkeypatch.setattr(DecoderLayer, "forward", forget_the_residual)
    layers = {f"model.layers.{n}" for n in range(NUM_LAYERS)}
    expected = layers | {f"{layer}:residual" for layer in layers}
    assert failed_places(trace(candidate, passes[:1], EXACT)) == expected


def test_the_model_is_as_before_after_a_trace(candidate: Candidate, passes: list[Pass]) -> None:
    ops = candidate.model.ops
    trace(candidate, passes, EXACT)
    assert candidate.model.ops is ops
    for module in candidate.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


@pytest.mark.parametrize("change", [{"num_hidden_layers": 10}, {"num_attention_heads": 8}], ids=str)
def test_two_models_of_different_shape_are_refused(
    make_candidate: Callable[..., Candidate], passes: list[Pass], change: dict[str, int]
) -> None:
    with pytest.raises(ProofError, match="these are not two checkpoints of one model"):
        trace(make_candidate(**SETTINGS | change), passes, EXACT)
