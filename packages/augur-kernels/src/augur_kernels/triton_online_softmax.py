"""One step of attention over a tile of keys (Milakov and Gimelshein, 2018, arXiv:1805.02867).

The softmax of all keys is had from tiles by keeping, for each query, the largest score so far, the
sum of `exp(score - largest)` and the values weighted with it. A larger score shrinks what is kept
by `exp(old - new)`.

Rounding order: scores, softmax and sums in float32; the weights to the dtype before they meet the
values, as the plain op rounds them, though here they are not yet divided by their sum. The plain op
also rounds the scores: this one errs less.
"""

import triton.language as tl

from augur_kernels.triton_arithmetic import LOWEST, inlined, product, rounded


@inlined
def attend_to_tile(scores, visible, exists, values, largest, total, attended, dtype: tl.constexpr):
    """The running state after one more tile of keys.

    Args:
        scores: `[QUERIES, KEYS]`, scaled.
        visible: bool, broadcasts to `scores`: where a query may look.
        exists: bool, `[1, KEYS]`: false past the last key.
        values: `[KEYS, CHANNELS]`.
        largest: `[QUERIES]`, -inf before the first tile.
        total: `[QUERIES]`, 0 before the first tile.
        attended: `[QUERIES, CHANNELS]`, 0 before the first tile.
        dtype: of the values.

    Returns:
        largest, total and attended.
    """
    scores = tl.where(visible, scores, LOWEST)
    scores = tl.where(exists, scores, float("-inf"))
    new_largest = tl.maximum(largest, tl.max(scores, axis=1))
    weights = tl.exp(scores - new_largest[:, None])
    kept = tl.exp(largest - new_largest)
    total = total * kept + tl.sum(weights, axis=1)
    attended = attended * kept[:, None] + product(rounded(weights, dtype), values, dtype)
    return new_largest, total, attended
