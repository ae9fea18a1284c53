"""A sliding window shows each query the last tokens only, itself included."""

import pytest
import torch

from augur_model import ops


@pytest.mark.parametrize("window", [1, 3, 8, 100])
@pytest.mark.parametrize(("query_length", "key_length"), [(1, 1), (1, 9), (5, 9), (9, 9)])
def test_each_query_sees_its_window(query_length, key_length, window):
    key = torch.arange(key_length, dtype=torch.float32).view(1, 1, key_length, 1)
    cut, _, mask = ops.within_window(key, key, None, query_length, window)
    if mask is None:  # causality alone decides
        mask = ops.causal_mask(query_length, cut.shape[2], key.device)
    for row, position in enumerate(range(key_length - query_length, key_length)):
        seen = cut[0, 0, :, 0][mask[row]].tolist()
        assert seen == list(range(max(0, position - window + 1), position + 1))


def test_a_mask_handed_in_is_kept_inside_the_window():
    key = torch.zeros(1, 1, 6, 1)
    mask = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    mask[1, ..., 4] = False
    _, _, combined = ops.within_window(key, key, mask, 1, 3)
    assert combined.view(2, 3).tolist() == [[True, True, True], [True, False, True]]
