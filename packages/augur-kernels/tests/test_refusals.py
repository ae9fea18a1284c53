"""What a kernel cannot compute is refused by name, before anything is started."""

import os
import subprocess
import sys

import pytest
import torch

from augur_kernels import TRITON_KERNELS, KernelInputError, KernelUnavailableError


def test_on_a_cpu_without_the_interpreter_it_says_how():
    rows, weight = torch.ones(2, 8), torch.ones(8)
    with pytest.raises(KernelUnavailableError, match=r"hidden_states is on cpu.*INTERPRET"):
        TRITON_KERNELS["rms_norm"](rows, weight, 1e-6)


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


HEADS, KEYS = ones(1, 4, 3, 8), ones(1, 2, 3, 8)
CODES, SCALES = ones(5, 64, dtype=torch.int8), ones(5, 2)
BYTES = ones(5, 32, dtype=torch.uint8)
MASK = ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("op", "arguments", "message"),
    [
        ("rms_norm", (ones(2, 8).double(), ones(8), 1e-6), "hidden_states is torch.float64"),
        ("rms_norm", (ones(2, 8), ones(8).half(), 1e-6), "weight is torch.float16 on cpu"),
        ("rms_norm", (ones(2, 8), ones(7), 1e-6), r"weight has the shape \[7\], expected \[8\]"),
        ("rms_norm", (ones(2, 8).requires_grad_(), ones(8), 1e-6), "it has no gradient"),
        ("rms_norm", (ones(1, 70000), ones(70000), 1e-6), "70000 values, expected at most 65536"),
        ("add_rms_norm", (ones(2, 8), ones(8), ones(8), 1e-6), r"residual has the shape \[8\]"),
        ("apply_rope", (ones(1, 1, 3, 7), *[ones(1, 3, 7)] * 2), "7 channels, expected an even"),
        ("apply_rope", (ones(2, 1, 3, 8), *[ones(3, 3, 8)] * 2), "cos has the shape"),
        ("swiglu", (ones(2, 8), ones(2, 7)), r"up has the shape \[2, 7\], expected \[2, 8\]"),
        ("attention", (HEADS, ones(1, 3, 3, 8), ones(1, 3, 3, 8), None, 1.0), "do not share 3"),
        ("attention", (HEADS, KEYS, KEYS[:, :, 1:], None, 1.0), "value has the shape"),
        ("attention", (HEADS, KEYS[:, :, :2], KEYS[:, :, :2], None, 1.0), "3 queries are the last"),
        ("attention", (HEADS, KEYS, KEYS, MASK, 1.0), r"mask has the shape \[2, 3\]"),
        ("attention", (HEADS, KEYS, KEYS, MASK.float(), 1.0), "mask is torch.float32"),
        ("attention", (*[ones(1, 1, 1, 264)] * 3, None, 1.0), "264 channels, expected at most 256"),
        ("int8_linear", (ones(1, 40), CODES, SCALES), "40 columns, expected a multiple of 32"),
        ("int8_linear", (ones(1, 64), BYTES, SCALES), "codes are torch.uint8"),
        ("int8_linear", (ones(1, 32), CODES, SCALES), r"codes has the shape \[5, 64\]"),
        ("int8_linear", (ones(1, 64), CODES, SCALES.half()), "scales are torch.float16"),
        ("int8_linear", (ones(1, 64), CODES, SCALES[1:]), r"scales has the shape \[4, 2\]"),
        ("int4_linear", (ones(1, 64), BYTES, SCALES[:, 0]), r"scales has the shape \[5\]"),
    ],
)
def test_what_does_not_fit_is_named(interpreted, op, arguments, message):
    with pytest.raises(KernelInputError, match=f"{op}: .*{message}"):
        interpreted(TRITON_KERNELS[op], *arguments)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "import sys; sys.modules['triton'] = None; import augur_kernels as k\n"
            "print(k.dequantise_int8.__name__); k.TRITON",
            "augur_kernels.TRITON needs triton, which is not installed",
        ),
        (
            "import os, triton; os.environ['TRITON_INTERPRET'] = '1'\n"
            "print('dequantise_int8'); from augur_kernels import TRITON",
            "TRITON_INTERPRET changed after triton was imported",
        ),
    ],
)
def test_what_is_missing_is_named_when_a_kernel_is_asked_for(program, message):
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "dequantise_int8\n"
    assert f"KernelUnavailableError: {message}" in ended.stderr
