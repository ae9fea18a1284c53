"""Positions and masks are inputs: what is left out has a default, and padded batches work."""

import pytest
import torch

from augur_model import EAGER, SDPA
from augur_model.ops import causal_mask

BOTH = pytest.mark.parametrize("ops", [EAGER, SDPA], ids=["eager", "sdpa"])
ROWS = [[5, 3, 99, 0, 150, 3, 42], [8, 13, 21], [7]]
LENGTH = max(map(len, ROWS))
# The whole model over another path: the rounding of some twenty matrix products.
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}


def test_left_out_positions_and_mask_are_counting_and_causal(make_model):
    model, token_ids = make_model(), torch.tensor([ROWS[0]])
    positions = torch.arange(LENGTH)[None]
    mask = causal_mask(LENGTH, LENGTH, token_ids.device)
    assert torch.equal(model(token_ids, positions, mask=mask), model(token_ids))


def test_left_out_positions_and_mask_go_on_where_the_cache_ends(make_model, make_cache):
    model, token_ids = make_model(), torch.tensor([ROWS[0]])
    by_default, by_hand = make_cache(), make_cache()
    for cache in (by_default, by_hand):
        model(token_ids[:, :4], cache=cache)
    positions = torch.arange(4, LENGTH)[None]
    mask = causal_mask(LENGTH - 4, LENGTH, token_ids.device)
    expected = model(token_ids[:, 4:], positions, mask=mask, cache=by_hand)
    assert torch.equal(model(token_ids[:, 4:], cache=by_default), expected)


def test_positions_decide_the_rotation_and_not_the_place_in_the_batch(make_model):
    model, token_ids = make_model(), torch.tensor([ROWS[0]])
    spread = torch.arange(LENGTH)[None] * 3
    assert not torch.allclose(model(token_ids, spread), model(token_ids), atol=1e-2)
    # Attention sees differences of positions alone.
    torch.testing.assert_close(
        model(token_ids, torch.arange(LENGTH)[None] + 100), model(token_ids), **TOLERANCE
    )


def left_padded() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Token ids, positions, and `[batch, length]` true where a token is real."""
    pads = torch.tensor([LENGTH - len(row) for row in ROWS])
    token_ids = torch.tensor([[150] * (LENGTH - len(row)) + row for row in ROWS])
    positions = torch.arange(LENGTH)[None] - pads[:, None]
    return token_ids, positions.clamp(min=0), positions >= 0


@BOTH
def test_a_left_padded_row_equals_the_row_alone(make_model, ops):
    model = make_model(ops)
    token_ids, positions, real = left_padded()
    causal = causal_mask(LENGTH, LENGTH, token_ids.device)
    logits = model(token_ids, positions, mask=causal & real[:, None, None, :])
    for row, row_logits in zip(ROWS, logits, strict=True):
        alone = model(torch.tensor([row]))[0]
        torch.testing.assert_close(row_logits[LENGTH - len(row) :], alone, **TOLERANCE)


def test_a_padded_batch_without_its_mask_does_not_equal_its_rows(make_model):
    model = make_model()
    token_ids, positions, _ = left_padded()
    alone = model(torch.tensor([ROWS[1]]))[0]
    assert not torch.allclose(model(token_ids, positions)[1, -3:], alone, atol=1e-2)


@BOTH
def test_a_left_padded_batch_decodes_as_its_rows_do(make_model, make_cache, ops):
    model = make_model(ops)
    token_ids, positions, real = left_padded()
    causal = causal_mask(LENGTH, LENGTH, token_ids.device)
    cache = make_cache(len(ROWS))
    model(token_ids, positions, mask=causal & real[:, None, None, :], cache=cache)

    next_ids = torch.tensor([[11], [12], [13]])
    see_next = torch.cat((real, torch.ones(3, 1, dtype=torch.bool)), dim=1)
    next_positions = positions[:, -1:] + 1
    logits = model(next_ids, next_positions, mask=see_next[:, None, None, :], cache=cache)
    for row, next_id, row_logits in zip(ROWS, next_ids, logits, strict=True):
        alone = model(torch.tensor([[*row, int(next_id)]]), logits_to_keep=1)[0]
        torch.testing.assert_close(row_logits, alone, **TOLERANCE)


@BOTH
@pytest.mark.parametrize("pad", [0, 150])
def test_a_right_padded_row_equals_the_row_alone(make_model, ops, pad):
    model = make_model(ops)
    token_ids = torch.tensor([row + [pad] * (LENGTH - len(row)) for row in ROWS])
    logits = model(token_ids, num_tokens=[len(row) for row in ROWS])
    for row, row_logits in zip(ROWS, logits, strict=True):
        torch.testing.assert_close(
            row_logits[: len(row)], model(torch.tensor([row]))[0], **TOLERANCE
        )
