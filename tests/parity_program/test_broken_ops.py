"""An op on trial that breaks is named with its module, whatever the way it breaks."""

import pytest

BROKEN = [
    ("RAISES", "mlp: op swiglu raised ArithmeticError: the kernel on trial gave up"),
    ("GIVES_NOTHING", "input_layernorm: op rms_norm gave NoneType, expected [1, "),
    ("GIVES_ANOTHER_DTYPE", ", 8] float64 on cpu, expected [1, 4, "),
    ("GIVES_ANOTHER_SHAPE", "self_attn: op attention gave [1, 4, 1, 8] float32 on cpu, expected "),
    ("TAKES_TOO_LITTLE", "self_attn.q_proj: op linear raised TypeError: "),
]


@pytest.mark.parametrize(("table", "message"), BROKEN)
def test_a_trace_names_the_op_that_breaks_and_its_module(parity, checkpoint, table, message):
    result = parity("trace", "--model", checkpoint, "--ops", f"wrong_ops:{table}", "--json")
    assert result.exit_code == 1
    assert "error: model.layers.0." in result.stderr
    assert message in result.stderr
    assert "two checkpoints" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("table", ["RAISES", "GIVES_NOTHING"])
def test_a_check_names_it_too(parity, truth_file, table):
    result = parity("check", "--truth", truth_file, "--ops", f"wrong_ops:{table}")
    assert result.exit_code == 1
    assert dict(BROKEN)[table] in result.stderr
    assert "internal error" not in result.stderr
