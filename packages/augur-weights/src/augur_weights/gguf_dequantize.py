"""From a GGUF tensor's stored blocks to float32, and on to bfloat16."""

import math
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import torch

from augur_weights.errors import GGUFError
from augur_weights.gguf_file import TensorInfo
from augur_weights.gguf_types import TensorType

# gguf works on sixteen rows at a time, whatever their length; a chunk laid out in this many rows
# makes each of its numpy calls long enough to be worth the call, and lets two threads overlap.
_ROWS = 128

# Scales are float16, whose smallest step times a code makes no weight, but is all there is of one
# that is nearly zero.
_SCALE_STEP = np.float32(2.0**-19)


def dequantize(blocks: bytearray, tensor_type: TensorType) -> npt.NDArray[np.float32]:
    """The float32 values of whole blocks that follow each other in a tensor, ``[elements]``.

    The formulas are the ``gguf`` library's (``gguf.quants``).
    """
    num_blocks = len(blocks) // tensor_type.block_bytes
    rows = np.frombuffer(blocks, np.uint8).reshape(math.gcd(num_blocks, _ROWS), -1)
    # A damaged scale may be infinite or NaN: whoever takes the values looks for that, and numpy's
    # warning would only come before the message.
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(tensor_type.id))
    flat: npt.NDArray[np.float32] = values.reshape(-1)
    return flat


def rounding_steps(
    blocks: bytearray, tensor_type: TensorType, values: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """How far apart the values are that each element of ``values``, dequantized, might have had."""
    if tensor_type.code_bytes is None:
        exponents = np.frexp(values)[1] - 1 - tensor_type.code_steps
        steps: npt.NDArray[np.float32] = np.ldexp(np.float32(1), exponents) * (values != 0)
        return steps
    # Between the values that the lowest and the highest code stand for, with the same scales.
    ends = []
    for code in (0, 255):
        edited = np.array(blocks, np.uint8).reshape(-1, tensor_type.block_bytes)
        edited[:, tensor_type.code_bytes] = code
        ends.append(dequantize(bytearray(edited), tensor_type))
    steps = np.abs(ends[1] - ends[0]) / tensor_type.code_steps + _SCALE_STEP
    return steps.reshape(values.shape)


def to_bfloat16(blocks: bytearray, tensor: TensorInfo, path: Path) -> memoryview:
    """The same values rounded to bfloat16, to nearest and ties to even, as little-endian bytes.

    Raises:
        GGUFError: a value is not finite in bfloat16, as every trained weight is.
    """
    values = dequantize(blocks, tensor.type)
    rounded = torch.from_numpy(values).to(torch.bfloat16)
    # After rounding, because the largest float32 values round to infinity.
    if not torch.isfinite(rounded).all():
        raise GGUFError(
            f"{path}: tensor '{tensor.name}' ({tensor.type.name}) holds values that are not "
            "finite; the file is damaged, fetch it again"
        )
    return rounded.view(torch.uint8).numpy().data
