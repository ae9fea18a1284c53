"""The whole-model comparisons catch what they are there for: each broken model fails them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import Module

from augur_model import Ops
from augur_proof import (
    DECODE_TWINS,
    DTYPES,
    LOW_BIT_TWINS,
    PREFILL_TWINS,
    WHOLE_MODEL,
    ComparisonError,
    Outputs,
    Pair,
    Referee,
    check_both_fail,
    check_close,
    check_same_bits,
    pair_of,
    random_token_ids,
    tiny_config,
)

pytest.importorskip("transformers")

PREFILL = None
DECODE = (6, 1, 1, 1)
# Position 0 is left out: every rotation by no angle is right. The decode steps start at 6.
FROM_POSITION = {PREFILL: 3, DECODE: 6}

either_phase = pytest.mark.parametrize("sizes", [PREFILL, DECODE], ids=["prefill", "decode"])


@pytest.fixture(scope="module", params=DTYPES.values(), ids=str)
def referee(request: pytest.FixtureRequest) -> Referee:
    """Its embedding's mean square is near the epsilons, so that one can be told from another."""
    return Referee.random(tiny_config(), request.param, embedding_scale=0.003)


@pytest.fixture
def pair(referee: Referee) -> Pair:
    return pair_of(referee)


def _logits(pair: Pair, sizes: tuple[int, ...] | None) -> Outputs:
    start = FROM_POSITION[sizes]
    found, expected = pair.logits(random_token_ids(2, 9), sizes)
    return Outputs(found[:, start:], expected[:, start:])


def _check_both_fail(pair: Pair, sizes: tuple[int, ...] | None) -> None:
    check_both_fail(*_logits(pair, sizes), WHOLE_MODEL[pair.referee.model.dtype])


@either_phase
def test_the_reference_itself_passes_both_comparisons(
    sizes: tuple[int, ...] | None, pair: Pair
) -> None:
    check_same_bits(*_logits(pair, sizes))
    check_close(*_logits(pair, sizes), WHOLE_MODEL[pair.referee.model.dtype])


@pytest.mark.parametrize(
    ("sizes", "ops"),
    [
        *(pytest.param(PREFILL, ops, id=f"prefill, {name}") for name, ops in PREFILL_TWINS.items()),
        *(pytest.param(PREFILL, ops, id=f"prefill, {name}") for name, ops in DECODE_TWINS.items()),
        *(pytest.param(DECODE, ops, id=f"decode, {name}") for name, ops in DECODE_TWINS.items()),
    ],
)
def test_a_model_with_a_broken_op_fails(
    sizes: tuple[int, ...] | None, ops: Ops, pair: Pair
) -> None:
    _check_both_fail(pair.with_ops(ops), sizes)


@either_phase
@pytest.mark.parametrize("change", [{"rope_theta": 10_000.0}, {"rms_norm_eps": 1e-5}], ids=str)
def test_a_model_built_from_a_wrong_config_fails(
    change: dict[str, float], sizes: tuple[int, ...] | None, referee: Referee
) -> None:
    _check_both_fail(pair_of(referee, replace(referee.config, **change)), sizes)


@either_phase
@pytest.mark.parametrize("projection", ["q_proj", "k_proj", "v_proj"])
def test_a_model_that_lost_one_bias_fails(
    projection: str, sizes: tuple[int, ...] | None, pair: Pair
) -> None:
    pair.candidate.model.model.layers[1].self_attn.get_submodule(projection).bias.zero_()
    _check_both_fail(pair, sizes)


def test_decode_steps_whose_positions_start_again_fail(pair: Pair) -> None:
    def start_again(_: Module, args: tuple[Tensor]) -> tuple[Tensor, Tensor]:
        return args[0], torch.arange(args[0].shape[1])[None]

    pair.candidate.model.register_forward_pre_hook(start_again)
    _check_both_fail(pair, DECODE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", LOW_BIT_TWINS)
def test_a_model_that_rounds_in_another_order_fails_equality_though_it_is_close(
    name: str, dtype: torch.dtype
) -> None:
    pair = pair_of(Referee.random(tiny_config(), dtype)).with_ops(LOW_BIT_TWINS[name])
    logits = _logits(pair, PREFILL)
    check_close(*logits, WHOLE_MODEL[dtype])
    with pytest.raises(ComparisonError):
        check_same_bits(*logits)
