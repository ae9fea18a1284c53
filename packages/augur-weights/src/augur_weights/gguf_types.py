"""The tensor types of GGUF files that augur imports, one row each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorType:
    """One way in which a GGUF file stores a tensor's elements.

    Attributes:
        id: the number in the file (``ggml_type`` in ggml.h); ``name`` is ggml's, too.
        block_elements: elements that are stored together; a row is a whole number of blocks.
        code_bytes: which of them hold the elements' codes; the others hold scales. None in a type
            without scales.
        code_steps: how many steps of its scale an element rises or falls by when all of its code's
            bits are set; in a type without scales, the bits of its significand behind the first.
    """

    id: int
    name: str
    block_elements: int
    block_bytes: int
    code_bytes: slice | None
    code_steps: int


SUPPORTED_TYPES = {
    tensor_type.id: tensor_type
    for tensor_type in (
        TensorType(0, "F32", 1, 4, None, 23),
        TensorType(1, "F16", 1, 2, None, 10),
        TensorType(2, "Q4_0", 32, 18, slice(2, 18), 15),
        TensorType(3, "Q4_1", 32, 20, slice(4, 20), 15),
        TensorType(6, "Q5_0", 32, 22, slice(2, 22), 31),
        TensorType(7, "Q5_1", 32, 24, slice(4, 24), 31),
        TensorType(8, "Q8_0", 32, 34, slice(2, 34), 1),  # a signed code: from 0 to -1
        TensorType(10, "Q2_K", 256, 84, slice(16, 80), 3),
        TensorType(11, "Q3_K", 256, 110, slice(0, 96), 7),
        TensorType(12, "Q4_K", 256, 144, slice(16, 144), 15),
        TensorType(13, "Q5_K", 256, 176, slice(16, 176), 31),
        TensorType(14, "Q6_K", 256, 210, slice(0, 192), 63),
        TensorType(30, "BF16", 1, 2, None, 7),
    )
}
