"""`trace` names the module or the op that is wrong, and nothing that merely follows from it."""

import json
from typing import Any

import pytest
import torch

from augur.llm import load
from augur_proof.points import compared_modules
from augur_proof.referee import Referee

CPU = torch.device("cpu")


@pytest.fixture
def trace(parity, checkpoint):
    def run(*arguments: object, exit_code: int = 1) -> dict[str, Any]:
        result = parity("trace", "--model", checkpoint, *arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    return run


def failed_places(found: dict[str, Any]) -> set[str]:
    return {one["point"] for one in found["failed"]}


def test_every_output_of_an_equal_network_is_held_to_the_bit(trace):
    found = trace("--decode-steps", 2, exit_code=0)
    assert found["held"]
    assert found["demand"]["outputs"] == "0 (equal to the bit)"
    # Three passes over nine layers of nineteen points, and five points around them.
    assert found["num_outputs"] == 3 * (9 * 19 + 5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_dtypes_are_held_to_the_bit_too(trace, dtype):
    assert trace("--dtype", dtype, exit_code=0)["held"]


@pytest.mark.parametrize(
    ("tensor", "module", "op"),
    [
        ("model.layers.7.mlp.down_proj.weight", "model.layers.7.mlp.down_proj", "linear"),
        ("model.layers.7.self_attn.k_proj.bias", "model.layers.7.self_attn.k_proj", "linear"),
        ("model.layers.7.self_attn.o_proj.weight", "model.layers.7.self_attn.o_proj", "linear"),
        ("model.layers.7.input_layernorm.weight", "model.layers.7.input_layernorm", "rms_norm"),
        ("model.norm.weight", "model.norm", "rms_norm"),
    ],
)
def test_one_changed_weight_is_located_on_whichever_side_it_is(
    trace, parity, checkpoint, changed, tensor, module, op
):
    other = changed(tensor)
    found = trace("--against", other)
    assert (found["first"]["point"], found["first"]["op"]) == (module, op)
    assert failed_places(found) == {module}
    assert found["first"]["ulps"] > 0

    result = parity("trace", "--model", other, "--against", checkpoint, "--json")
    assert result.exit_code == 1
    assert failed_places(json.loads(result.stdout)) == {module}


def test_a_changed_weight_is_found_in_the_prefill_and_in_every_decode_step(trace, changed):
    found = trace("--against", changed("model.layers.7.mlp.up_proj.weight"), "--decode-steps", 2)
    passes = [one["pass"] for one in found["failed"]]
    assert passes[0].startswith("prefill of ")
    assert passes[1:] == ["decode step 1", "decode step 2"]


def test_the_largest_difference_is_placed_by_token_and_channel(trace, changed):
    # The number changed is that of input 5 for output 0.
    found = trace("--against", changed("model.layers.7.mlp.down_proj.weight"), "--prompt", "Why?")
    prefill, decode = found["failed"]
    assert prefill["channel"] == decode["channel"] == 0
    num_tokens = int(prefill["pass"].split()[2])
    assert prefill["num_differing"] == num_tokens
    assert 0 <= prefill["token"] < num_tokens
    assert decode["token"] == num_tokens
    assert prefill["largest_difference"] == abs(prefill["augur"] - prefill["reference"])


@pytest.mark.parametrize(
    ("table", "place", "op"),
    [
        ("WRONG_EPSILON", "model.layers.0.input_layernorm", "rms_norm"),
        ("TILED_HEADS", "model.layers.0.self_attn:attention", "attention"),
        ("MASK_OFF_BY_ONE", "model.layers.0.self_attn:attention", "attention"),
        ("INTERLEAVED_ROPE", "model.layers.0.self_attn:apply_rope(query)", "apply_rope"),
        ("QUERY_ALONE_ROTATED_WRONG", "model.layers.0.self_attn:apply_rope(query)", "apply_rope"),
        ("GATE_AND_UP_SWAPPED", "model.layers.0.mlp:swiglu", "swiglu"),
        ("BIAS_DROPPED", "model.layers.0.self_attn.q_proj", "linear"),
    ],
)
def test_a_wrong_op_is_named_where_it_first_computes_and_no_other_is(trace, table, place, op):
    found = trace("--ops", f"wrong_ops:{table}")
    assert (found["first"]["point"], found["first"]["op"]) == (place, op)
    assert {one["op"] for one in found["failed"]} == {op}


@pytest.mark.parametrize("arguments", [("--ops", "wrong_ops:RIGHT"), ("--attention", "sdpa")])
def test_a_right_implementation_is_held_within_one_ops_tolerance(trace, arguments):
    found = trace(*arguments, exit_code=0)
    assert found["demand"]["outputs"] == "1e-05 + 1.3e-06 of the value"
    assert not trace(*arguments, "--tolerance", 0)["held"]


def test_a_cache_that_gives_back_something_else_is_named(trace, monkeypatch):
    from augur_gen import StaticKVCache

    update = StaticKVCache.update

    def forget_the_first_token(cache, layer_index, keys, values):
        keys, values = update(cache, layer_index, keys, values)
        if layer_index == 4 and cache.length:
            values = values.clone()
            values[:, :, 0] = 0
        return keys, values

    monkeypatch.setattr(StaticKVCache, "update", forget_the_first_token)
    found = trace()
    assert failed_places(found) == {"model.layers.4.self_attn:cache(values)"}
    assert found["first"]["token"] == 0
    assert found["first"]["pass"] == "decode step 1"


def test_a_wrong_residual_is_named(trace, monkeypatch):
    from augur_model import DecoderLayer

    def forget_the_residual(layer, hidden_states, *rest):
        normed = layer.input_layernorm(hidden_states, rest[-1])
        hidden_states = layer.self_attn(normed, *rest)
        normed = layer.post_attention_layernorm(hidden_states, rest[-1])
        return layer.mlp(normed, rest[-1])

    monkeypatch.setattr(DecoderLayer, "forward", forget_the_residual)
    found = trace("--decode-steps", 0)
    layers = range(9)
    expected = {f"model.layers.{n}:residual" for n in layers}
    assert failed_places(found) == expected | {f"model.layers.{n}" for n in layers}


def test_the_model_is_as_before_after_a_trace(checkpoint):
    from augur_proof.tolerance import EXACT
    from augur_proof.trace import trace as trace_network

    passes = Referee.load(checkpoint, device="cpu", dtype="float32").record([1, 2, 3], 1)
    model = load(checkpoint, device="cpu", dtype="float32").model
    ops = model.ops
    trace_network(model, passes, EXACT)
    assert model.ops is ops
    for _, module in compared_modules(model):
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_the_report_marks_the_place_among_its_neighbours(parity, checkpoint, changed):
    other = changed("model.layers.7.mlp.down_proj.weight")
    result = parity("trace", "--model", checkpoint, "--against", other)
    assert result.exit_code == 1
    assert "first difference: model.layers.7.mlp.down_proj\n  op linear, in the" in result.stdout
    lines = [line.split() for line in result.stdout.splitlines()]
    (marked,) = [i for i, line in enumerate(lines) if line[:1] == [">"]]
    assert lines[marked][1:3] == ["model.layers.7.mlp.down_proj", "linear"]
    assert lines[marked - 1] == ["model.layers.7.mlp:swiglu", "swiglu", "0", "0"]
    assert lines[marked + 1] == ["model.layers.7.mlp", "0", "0"]
    assert "2 of 352 outputs differ:" in result.stdout
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()[3:]) <= 100


def test_two_models_of_different_shape_are_refused(parity, checkpoint, tmp_path):
    import json as _json
    import shutil

    from safetensors.torch import load_file, save_file

    shorter = shutil.copytree(checkpoint, tmp_path / "shorter")
    config = _json.loads((shorter / "config.json").read_text(encoding="utf-8"))
    config |= {"num_hidden_layers": 8, "layer_types": config["layer_types"][:8]}
    (shorter / "config.json").write_text(_json.dumps(config), encoding="utf-8")
    tensors = load_file(shorter / "model.safetensors")
    kept = {name: value for name, value in tensors.items() if ".layers.8." not in name}
    save_file(kept, shorter / "model.safetensors", metadata={"format": "pt"})

    result = parity("trace", "--model", checkpoint, "--against", shorter)
    assert result.exit_code == 2
    assert "these are not two checkpoints of one model" in result.stderr
