"""Tables of ops as a kernel writer would bring them: one right, one wrong, two that break."""

from dataclasses import replace

from torch import Tensor

from augur_model import EAGER
from augur_model.ops import eager_attention
from augur_proof import DECODE_TWINS


def _attention_in_float64(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    exact = eager_attention(query.double(), key.double(), value.double(), mask, scale)
    return exact.to(query.dtype)


def _raise(_gate: Tensor, _up: Tensor) -> Tensor:
    raise ArithmeticError("the kernel on trial gave up")


RIGHT = replace(EAGER, attention=_attention_in_float64)
TILED_HEADS = DECODE_TWINS["heads tiled"]
RAISES = replace(EAGER, swiglu=_raise)
GIVES_NOTHING = replace(EAGER, rms_norm=lambda _x, _weight, _eps: None)
