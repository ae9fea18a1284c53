"""Whether a GGUF model's output head is its embedding.

GGUF has no key for it. A tied model's file may leave ``output.weight`` out, or hold the one matrix
twice, rounded in two ways; an untied model's file holds two matrices that differ by more.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from augur_weights.gguf_dequantize import dequantize, rounding_steps
from augur_weights.gguf_family import EMBEDDING, HEAD
from augur_weights.gguf_file import GGUFFile, TensorInfo

# Rows that are compared beside those of the added tokens, spread over the vocabulary.
_SAMPLED_ROWS = 4096
_ROWS_AT_A_TIME = 256

# How far the mean square of a difference may go beyond what two roundings, each anywhere within its
# step, come to: over all rows, and in one. ggml's own quantisers show at most 1.17 and 1.30 on
# bell-shaped weights, the official 0.5B file 0.98 and 1.14.
_MOST_OF_ALL, _MOST_OF_A_ROW = 1.25, 1.5


def tie_embeddings(gguf: GGUFFile, tensors: dict[str, TensorInfo]) -> bool:
    """Decide whether the head is tied; if it is, leave one matrix in ``tensors`` for both.

    They are one matrix if they differ by no more than their rounding: in one type not at all, since
    the same values round to the same; in two types by as much as the steps of the scales that the
    file itself stores, in every row that is compared. Of two copies the more finely rounded one is
    kept. Two matrices that are kept apart though they were one cost memory and nothing else.

    Returns:
        What ``tie_word_embeddings`` must say.
    """
    if HEAD not in tensors:
        return True
    embedding, head = tensors[EMBEDDING], tensors[HEAD]
    if embedding.type is head.type:
        tied, finer = _same_bytes(gguf, embedding, head), embedding
    else:
        difference, embedding_error, head_error = _row_errors(gguf, embedding, head)
        error = embedding_error + head_error
        tied = bool(
            (difference <= _MOST_OF_A_ROW * error).all()
            and difference.sum() <= _MOST_OF_ALL * error.sum()
        )
        finer = embedding if embedding_error.sum() < head_error.sum() else head
    if tied:
        tensors[EMBEDDING] = finer
        del tensors[HEAD]
    return tied


def _same_bytes(gguf: GGUFFile, one: TensorInfo, other: TensorInfo) -> bool:
    step = 2**22
    return all(
        gguf.read(one, start, count) == gguf.read(other, start, count)
        for start in range(0, one.num_bytes, step)
        for count in [min(step, one.num_bytes - start)]
    )


def _rows(gguf: GGUFFile, num_rows: int) -> Sequence[int]:
    """Those compared: some from everywhere, and all that are no byte pairs' and may be new."""
    spread = np.linspace(0, num_rows - 1, min(num_rows, _SAMPLED_ROWS)).round().astype(int)
    types = gguf.get("tokenizer.ggml.token_type", list, [])
    return sorted({*spread.tolist(), *(i for i, kind in enumerate(types[:num_rows]) if kind != 1)})


def _row_errors(
    gguf: GGUFFile, embedding: TensorInfo, head: TensorInfo
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean squares ``[rows]``: of the difference, and of the rounding error of either matrix."""
    rows = _rows(gguf, embedding.shape[0])
    found = []
    # A damaged scale may be infinite or NaN; such matrices are not alike, and refused later.
    with np.errstate(all="ignore"):
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            some = rows[start : start + _ROWS_AT_A_TIME]
            (one, one_error), (other, other_error) = (
                _sample(gguf, matrix, some) for matrix in (embedding, head)
            )
            difference = np.square(one - other, dtype=np.float64).mean(axis=1)
            found.append(np.stack([difference, one_error, other_error]))
    difference, one_error, other_error = np.concatenate(found, axis=1)
    return difference, one_error, other_error


def _sample(
    gguf: GGUFFile, matrix: TensorInfo, rows: Sequence[int]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Values ``[rows, columns]``, and the mean square of each row's rounding error ``[rows]``."""
    row_bytes = matrix.num_bytes // matrix.shape[0]
    blocks = bytearray()
    for row in rows:
        blocks += gguf.read(matrix, row * row_bytes, row_bytes)
    values = dequantize(blocks, matrix.type).reshape(len(rows), -1)
    steps = rounding_steps(blocks, matrix.type, values)
    # An error that is as likely anywhere within half a step to both sides.
    return values, np.square(steps, dtype=np.float64).mean(axis=1) / 12
