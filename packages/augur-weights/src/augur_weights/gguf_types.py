"""The tensor types of GGUF files that augur imports, one row each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorType:
    """One way in which a GGUF file stores a tensor's elements.

    Attributes:
        id: the number in the file (``ggml_type`` in ggml.h).
        name: ggml's name for it.
        block_elements: elements that are stored together; a row is a whole number of blocks.
        block_bytes: bytes of one block.
        error_bound: what the type's rounding stays below, as root mean square of the error divided
            by root mean square of the matrix; about twice what bell-shaped weights show.
    """

    id: int
    name: str
    block_elements: int
    block_bytes: int
    error_bound: float


SUPPORTED_TYPES = {
    tensor_type.id: tensor_type
    for tensor_type in (
        TensorType(0, "F32", 1, 4, 0.0),
        TensorType(1, "F16", 1, 2, 0.0005),
        TensorType(2, "Q4_0", 32, 18, 0.2),
        TensorType(3, "Q4_1", 32, 20, 0.2),
        TensorType(6, "Q5_0", 32, 22, 0.1),
        TensorType(7, "Q5_1", 32, 24, 0.1),
        TensorType(8, "Q8_0", 32, 34, 0.02),
        TensorType(10, "Q2_K", 256, 84, 0.5),
        TensorType(11, "Q3_K", 256, 110, 0.3),
        TensorType(12, "Q4_K", 256, 144, 0.2),
        TensorType(13, "Q5_K", 256, 176, 0.1),
        TensorType(14, "Q6_K", 256, 210, 0.05),
        TensorType(30, "BF16", 1, 2, 0.004),
    )
}
