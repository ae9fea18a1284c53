"""Logits are computed for the positions that are asked for, and for no others."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from augur_model import SDPA, QwenForCausalLM

TOKEN_IDS = torch.tensor([[5, 3, 99, 0, 150, 3, 42], [1, 1, 2, 3, 5, 8, 13]])


@pytest.mark.parametrize("kept", [0, 1, 3, 7])
def test_logits_to_keep_gives_the_last_positions(make_model, kept):
    model = make_model()
    last = model(TOKEN_IDS, logits_to_keep=kept)
    assert last.shape == (2, kept, 151)
    # The head's product has another shape, so the last bits may differ.
    torch.testing.assert_close(last, model(TOKEN_IDS)[:, 7 - kept :], atol=1e-5, rtol=1.3e-6)


@pytest.mark.parametrize(
    "index",
    [
        torch.tensor([6]),
        torch.tensor([4, 0, 4], dtype=torch.int32),
        torch.tensor([[6], [2]]),
        torch.tensor([[0, 5], [3, 3]], dtype=torch.int32),
        torch.zeros(0, dtype=torch.int64),
    ],
    ids=lambda index: str(index.tolist()),
)
def test_positions_that_are_named_are_kept_in_their_order(make_model, index):
    model = make_model()
    of_each_row = index.long().expand(2, -1)[..., None]
    expected = model(TOKEN_IDS).take_along_dim(of_each_row, dim=1)
    kept = model(TOKEN_IDS, logits_to_keep=index)
    torch.testing.assert_close(kept, expected, atol=1e-5, rtol=1.3e-6)


@pytest.mark.parametrize("kept", [1, 2])
def test_of_padded_rows_the_last_positions_are_each_rows_own(make_model, kept):
    model = make_model()
    last = model(TOKEN_IDS, num_tokens=[7, 3], logits_to_keep=kept)
    whole = model(TOKEN_IDS)
    expected = torch.stack((whole[0, 7 - kept : 7], whole[1, 3 - kept : 3]))
    torch.testing.assert_close(last, expected, atol=1e-5, rtol=1.3e-6)


class VocabularyWidth(TorchDispatchMode):
    """Counts the rows of the largest computed tensor whose last dimension is the vocabulary."""

    def __init__(self, model: QwenForCausalLM) -> None:
        super().__init__()
        self.width = model.config.vocab_size
        self.weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
        self.most_rows = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.shape[-1:] == (self.width,):
                self._record(tensor)
        return result

    def _record(self, tensor: Tensor) -> None:
        # The transposed head weight has that last dimension too, and is only a view.
        if tensor.untyped_storage().data_ptr() not in self.weights:
            self.most_rows = max(self.most_rows, tensor.numel() // self.width)


@pytest.mark.parametrize(("kept", "rows"), [(1, 1), (0, 0), (None, 4000)])
def test_a_long_prompt_allocates_logits_for_the_kept_positions_alone(make_model, kept, rows):
    model = make_model(SDPA, num_hidden_layers=1)
    with VocabularyWidth(model) as recorded:
        model(torch.arange(4000)[None] % 151, logits_to_keep=kept)
    assert recorded.most_rows == rows
