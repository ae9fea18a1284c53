"""How far apart two floating-point numbers are, counted in numbers that lie between."""

import torch
from torch import Tensor

_INTEGERS = {2: torch.int16, 4: torch.int32}


def ulp_distance(left: Tensor, right: Tensor) -> Tensor:
    """Steps from one number to the other through the representable numbers of their dtype.

    Floating-point numbers of one sign are ordered as their bits are when read as an integer, so
    the distance is a subtraction. +0 and -0 are the same place.

    Args:
        left: float32, bfloat16 or float16, no NaN.
        right: same dtype and shape.

    Returns:
        int64, same shape; 0 for equal numbers, 1 for neighbours.
    """
    return (_place(left) - _place(right)).abs()


def _place(values: Tensor) -> Tensor:
    """Each number's place in the order of all numbers of its dtype; 0 for zero."""
    integer = _INTEGERS[values.element_size()]
    bits = values.contiguous().view(integer).to(torch.int64)
    # A negative number's integer is its magnitude above the dtype's lowest integer.
    return torch.where(bits < 0, torch.iinfo(integer).min - bits, bits)
