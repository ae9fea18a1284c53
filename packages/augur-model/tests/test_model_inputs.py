"""A forward pass refuses arguments that do not fit, and says what it found and expected."""

import pytest
import torch

from augur_model import ModelInputError

TOKEN_IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    "token_ids",
    [
        torch.tensor([1, 2, 3]),
        torch.ones(1, 2, 3, dtype=torch.int64),
        torch.ones(2, 3),
        torch.ones(2, 3, dtype=torch.bool),
        torch.ones(2, 3, dtype=torch.uint8),
    ],
    ids=lambda ids: f"{ids.dtype} {list(ids.shape)}",
)
def test_token_ids_are_whole_numbers_by_batch_and_length(make_model, token_ids):
    with pytest.raises(ModelInputError) as error:
        make_model()(token_ids)
    assert f"token_ids is {token_ids.dtype} {list(token_ids.shape)}" in str(error.value)
    assert "[batch, length]" in str(error.value)


@pytest.mark.parametrize("shape", [(1, 0), (0, 3)])
def test_there_is_at_least_one_token(make_model, shape):
    with pytest.raises(ModelInputError, match="token_ids is empty"):
        make_model()(torch.ones(shape, dtype=torch.int64))


def test_int32_token_ids_are_as_good_as_int64(make_model):
    model = make_model()
    assert torch.equal(model(TOKEN_IDS.int()), model(TOKEN_IDS))


@pytest.mark.parametrize(
    "positions",
    [
        torch.tensor([0, 1, 2]),
        torch.tensor([[0, 1]]),
        torch.zeros(3, 3, dtype=torch.int64),
        torch.zeros(2, 3),
        torch.zeros(2, 3, dtype=torch.bool),
    ],
    ids=lambda positions: f"{positions.dtype} {list(positions.shape)}",
)
def test_positions_are_whole_numbers_that_fit_the_tokens(make_model, positions):
    with pytest.raises(ModelInputError) as error:
        make_model()(TOKEN_IDS, positions)
    assert f"positions is {positions.dtype} {list(positions.shape)}" in str(error.value)
    assert "[2, 3] or [1, 3]" in str(error.value)


@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(3, 3),
        torch.ones(3, 3, dtype=torch.int64),
        torch.ones(3, dtype=torch.bool),
        torch.ones(2, 3, dtype=torch.bool),
        torch.ones(3, 4, dtype=torch.bool),
        torch.ones(3, 1, 3, 3, dtype=torch.bool),
        torch.ones(1, 1, 1, 3, 3, dtype=torch.bool),
    ],
    ids=lambda mask: f"{mask.dtype} {list(mask.shape)}",
)
def test_a_mask_is_bool_and_broadcasts_to_the_scores(make_model, mask):
    with pytest.raises(ModelInputError) as error:
        make_model()(TOKEN_IDS, mask=mask)
    assert f"mask is {mask.dtype} {list(mask.shape)}" in str(error.value)
    assert "[2, 4, 3, 3]" in str(error.value)


def test_a_mask_covers_what_the_cache_holds(make_model, make_cache):
    model, cache = make_model(), make_cache(2)
    model(TOKEN_IDS, cache=cache)
    with pytest.raises(ModelInputError, match=r"\[2, 4, 3, 6\]"):
        model(TOKEN_IDS, mask=torch.ones(3, 3, dtype=torch.bool), cache=cache)
    assert cache.length == 3


@pytest.mark.parametrize("kept", [-1, 4])
def test_no_more_logits_than_tokens_can_be_kept(make_model, kept):
    with pytest.raises(ModelInputError, match=f"logits_to_keep is {kept}, expected 0 to 3"):
        make_model()(TOKEN_IDS, logits_to_keep=kept)


@pytest.mark.parametrize("num_tokens", [[3], [3, 3, 3], [0, 0], [4, 1], [-1, 3]], ids=str)
def test_each_row_has_at_most_as_many_real_tokens_as_it_is_long(make_model, num_tokens):
    with pytest.raises(ModelInputError) as error:
        make_model()(TOKEN_IDS, num_tokens=num_tokens)
    assert f"num_tokens is {num_tokens}, expected 2 numbers" in str(error.value)


def test_of_a_padded_row_no_more_logits_than_real_tokens_can_be_kept(make_model):
    with pytest.raises(ModelInputError, match="logits_to_keep is 2, expected 0 to 1"):
        make_model()(TOKEN_IDS, num_tokens=[3, 1], logits_to_keep=2)


@pytest.mark.parametrize(
    "index",
    [
        torch.tensor([0.0, 1.0]),
        torch.tensor([True, False, True]),
        torch.tensor(1),
        torch.zeros(3, 1, dtype=torch.int64),
        torch.zeros(1, 2, 1, dtype=torch.int64),
        torch.tensor([-1, 0]),
        torch.tensor([[0], [3]]),
    ],
    ids=lambda index: f"{index.dtype} {list(index.shape)}",
)
def test_kept_positions_are_whole_numbers_inside_the_tokens(make_model, index):
    with pytest.raises(ModelInputError, match=r"logits_to_keep (is torch|names positions)"):
        make_model()(TOKEN_IDS, logits_to_keep=index)


def test_a_cache_of_other_rows_that_differ_is_refused(make_model, make_cache):
    cache = make_cache(3)
    cache.advance([1, 2, 3])
    with pytest.raises(ModelInputError, match="token_ids has 2 rows, and the cache has 3"):
        make_model()(TOKEN_IDS, cache=cache)
