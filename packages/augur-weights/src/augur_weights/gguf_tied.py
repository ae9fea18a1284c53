"""Whether a GGUF model's output head is its embedding.

GGUF has no key for it. A tied model's file may leave ``output.weight`` out, or hold the one matrix
twice, rounded in two ways; an untied model's file holds two matrices that have little in common.
"""

import numpy as np
import numpy.typing as npt

from augur_weights.gguf_dequantize import dequantize
from augur_weights.gguf_file import GGUFFile, TensorInfo
from augur_weights.gguf_tensors import EMBEDDING, HEAD

_SAMPLED_ROWS = 256


def tie_embeddings(gguf: GGUFFile, tensors: dict[str, TensorInfo]) -> bool:
    """Decide whether the head is tied; if it is, leave one matrix in ``tensors`` for both.

    The two are compared on rows spread over the vocabulary. They are one matrix if the root mean
    square of their difference stays within the two types' rounding errors, as a share of the
    matrix: 0.12 for Q5_0 with Q8_0, where the official 0.5B file shows 0.05, and 0.8 for the two
    coarsest types, where two independent matrices show at least 1. Of two copies the more finely
    rounded one is kept. A head that was trained apart so briefly that the file's rounding hides it
    counts as tied.

    Returns:
        What ``tie_word_embeddings`` must say.
    """
    head = tensors.get(HEAD)
    if head is None:
        return True
    embedding = tensors[EMBEDDING]
    finer, coarser = sorted((embedding, head), key=lambda tensor: tensor.type.error_bound)
    expected, found = _sample(gguf, finer), _sample(gguf, coarser)
    bound = finer.type.error_bound + coarser.type.error_bound
    tied = bool(np.square(found - expected).sum() <= bound**2 * np.square(expected).sum())
    if tied:
        tensors[EMBEDDING] = finer
        del tensors[HEAD]
    return tied


def _sample(gguf: GGUFFile, matrix: TensorInfo) -> npt.NDArray[np.float64]:
    num_rows = matrix.shape[0]
    row_bytes = matrix.num_bytes // num_rows
    rows = np.linspace(0, num_rows - 1, min(num_rows, _SAMPLED_ROWS)).round().astype(int)
    sampled = [
        dequantize(gguf.read(matrix, int(row) * row_bytes, row_bytes), matrix.type) for row in rows
    ]
    return np.stack(sampled).astype(np.float64)
