"""An op on trial that breaks is named with its module, and is no wrong input: status 1."""

import pytest

BROKEN = {
    "RAISES": "mlp: op swiglu raised ArithmeticError: the kernel on trial gave up",
    "GIVES_NOTHING": "input_layernorm: op rms_norm gave NoneType, expected [1, ",
}


@pytest.mark.parametrize("table", ["RAISES", pytest.param("GIVES_NOTHING", marks=pytest.mark.gate)])
def test_a_trace_and_a_check_name_the_op_that_breaks_and_its_module(
    parity, checkpoint, truth_file, table
):
    for command in (("trace", "--model", checkpoint), ("check", "--truth", truth_file)):
        result = parity(*command, "--ops", f"wrong_ops:{table}", "--json")
        assert result.exit_code == 1
        assert f"error: model.layers.0.{BROKEN[table]}" in result.stderr
        assert "internal error" not in result.stderr
        assert result.stdout == ""
