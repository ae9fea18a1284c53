"""Arithmetic that is right on a GPU and under `TRITON_INTERPRET=1` alike.

Kernels load, convert to float32, compute there, and round where the plain op rounds. The
interpreter computes in bfloat16 as if it were an integer, converts its denormals wrongly and cuts
float32 off where it should round, so conversions and products go through here.

Kernels that only add and multiply are compiled without `enable_fp_fusion`: a product that is added
is rounded first, as torch rounds it.
"""

import triton
import triton.language as tl

from augur_kernels.errors import KernelUnavailableError

INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
"""Whether kernels run in Python, on the CPU."""

LOWEST = tl.constexpr(-3.4028234663852886e38)
"""The lowest finite float32: the score of what is hidden, so that a query that sees nothing gets
the mean of all values, as the plain op gives it, and not NaN."""

# Triton's own functions were made, interpreted or not, when it was first imported.
if INTERPRETED.value == isinstance(tl.sum, triton.JITFunction):
    raise KernelUnavailableError(
        "TRITON_INTERPRET changed after triton was imported; set it before Python starts"
    )

inlined = (lambda function: function) if INTERPRETED.value else triton.jit
"""Makes a function that kernels call. Interpreted it is Python's own: calling one of Triton's takes
milliseconds there, far more than what it computes."""


@inlined
def in_float32(values):
    """What was loaded, as float32."""
    if INTERPRETED and values.dtype == tl.bfloat16:
        bits = values.to(tl.int16, bitcast=True).to(tl.int32) << 16
        wide = bits.to(tl.float32, bitcast=True)
    else:
        wide = values.to(tl.float32)
    return wide


@inlined
def narrowed(values, dtype: tl.constexpr):
    """Float32 to the nearest numbers of a dtype, ties to even: what is stored."""
    if INTERPRETED and dtype == tl.bfloat16:
        # bfloat16 is the upper half of float32: what is cut off carries where it is more than half.
        bits = values.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        narrow = bits.to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        narrow = values.to(dtype)
    return narrow


@inlined
def rounded(values, dtype: tl.constexpr):
    """Float32 rounded to a dtype, to go on with in float32."""
    return in_float32(narrowed(values, dtype))


@inlined
def product(left, right, dtype: tl.constexpr):
    """`[m, k] @ [k, n]` of values that `dtype` holds, summed in float32."""
    if INTERPRETED:
        summed = tl.dot(in_float32(left), in_float32(right))
    else:
        # "ieee": float32 is not to be cut to tf32.
        summed = tl.dot(left.to(dtype), right.to(dtype), input_precision="ieee")
    return summed
