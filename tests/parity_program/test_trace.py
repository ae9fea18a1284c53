"""`trace` tells where a difference starts, for a person and as JSON."""

import json

import pytest

from augur_proof import write_tiny_checkpoint


@pytest.fixture
def trace(parity, checkpoint):
    def run(*arguments, exit_code=1):
        result = parity("trace", "--model", checkpoint, *arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    return run


def test_every_output_of_an_equal_network_is_held_to_the_bit(trace):
    found = trace("--decode-steps", 2, exit_code=0)
    assert found["held"]
    assert found["demand"]["outputs"] == "0 (equal to the bit)"
    # Three passes over nine layers of nineteen points, and five points around them.
    assert found["num_outputs"] == 3 * (9 * 19 + 5)


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.gate)])
def test_narrow_dtypes_are_held_to_the_bit_too(trace, dtype):
    assert trace("--dtype", dtype, exit_code=0)["held"]


def test_a_changed_weight_is_located_on_whichever_side_it_is(parity, trace, checkpoint, changed):
    result = parity("trace", "--model", changed, "--against", checkpoint, "--json")
    assert result.exit_code == 1
    for found in (trace("--against", changed), json.loads(result.stdout)):
        prefill, decode = found["failed"]
        assert prefill == found["first"]
        assert (prefill["point"], prefill["op"]) == ("model.layers.7.mlp.down_proj", "linear")
        assert decode["pass"] == "decode step 1"
        # The number changed is that of input 5 for output 0.
        assert prefill["channel"] == decode["channel"] == 0
        num_tokens = int(prefill["pass"].split()[2])
        assert prefill["num_differing"] == num_tokens
        assert 0 <= prefill["token"] < num_tokens == decode["token"]
        assert prefill["largest_difference"] == abs(prefill["augur"] - prefill["reference"])
        assert prefill["ulps"] > 0


def test_a_wrong_op_is_named_where_it_first_computes_and_no_other_is(trace):
    found = trace("--ops", "wrong_ops:TILED_HEADS")
    assert found["first"]["point"] == "model.layers.0.self_attn:attention"
    assert {one["op"] for one in found["failed"]} == {"attention"}


@pytest.mark.gate
@pytest.mark.parametrize(
    "arguments",
    [("--ops", "wrong_ops:RIGHT"), pytest.param(("--attention", "sdpa"), marks=pytest.mark.gate)],
)
def test_a_right_implementation_is_held_within_one_ops_tolerance(trace, arguments):
    found = trace(*arguments, exit_code=0)
    assert found["demand"]["outputs"] == "1e-05 + 1.3e-06 of the value"
    assert not trace(*arguments, "--tolerance", 0)["held"]


def test_the_report_marks_the_place_among_its_neighbours(parity, checkpoint, changed):
    result = parity("trace", "--model", checkpoint, "--against", changed)
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
    shorter = write_tiny_checkpoint(tmp_path / "shorter", num_hidden_layers=8)
    result = parity("trace", "--model", checkpoint, "--against", shorter)
    assert result.exit_code == 2
    assert "these are not two checkpoints of one model" in result.stderr
