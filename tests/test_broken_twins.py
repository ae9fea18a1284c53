"""The whole-model comparisons catch what they are there for: each broken model fails them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import Module
from transformers import Qwen2ForCausalLM

from augur_model import Ops, QwenConfig, QwenForCausalLM
from broken_twins import DECODE_TWINS, LOW_BIT_TWINS, PREFILL_TWINS, check_both_fail
from candidate import candidate_logits, candidate_of
from comparison import DTYPES, WHOLE_MODEL, ComparisonError, check_close, check_same_bits
from referee import build_referee, referee_config, referee_logits
from tiny_pairs import random_token_ids

PREFILL = None
DECODE = (6, 1, 1, 1)
# Position 0 is left out: every rotation by no angle is right. The decode steps start at 6.
FROM_POSITION = {PREFILL: 3, DECODE: 6}


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def referee(request: pytest.FixtureRequest) -> Qwen2ForCausalLM:
    """Its embedding's mean square is near the epsilons, so that one can be told from another."""
    return build_referee(referee_config(), request.param, embedding_scale=0.003)


def _logits(
    candidate: QwenForCausalLM, referee: Qwen2ForCausalLM, sizes: tuple[int, ...] | None
) -> tuple[Tensor, Tensor]:
    token_ids = random_token_ids(2, 9)
    found = candidate_logits(candidate, token_ids, sizes)
    expected = referee_logits(referee, token_ids, sizes)
    start = FROM_POSITION[sizes]
    return found[:, start:], expected[:, start:]


@pytest.mark.parametrize("sizes", [PREFILL, DECODE], ids=["prefill", "decode"])
def test_the_reference_itself_passes_both_comparisons(
    sizes: tuple[int, ...] | None, referee: Qwen2ForCausalLM
) -> None:
    logits = _logits(candidate_of(referee), referee, sizes)
    check_same_bits(*logits)
    check_close(*logits, WHOLE_MODEL[referee.dtype])


@pytest.mark.parametrize(
    ("sizes", "ops"),
    [
        *(pytest.param(PREFILL, ops, id=f"prefill, {name}") for name, ops in PREFILL_TWINS.items()),
        *(pytest.param(PREFILL, ops, id=f"prefill, {name}") for name, ops in DECODE_TWINS.items()),
        *(pytest.param(DECODE, ops, id=f"decode, {name}") for name, ops in DECODE_TWINS.items()),
    ],
)
def test_a_model_with_a_broken_op_fails(
    sizes: tuple[int, ...] | None, ops: Ops, referee: Qwen2ForCausalLM
) -> None:
    logits = _logits(candidate_of(referee, ops), referee, sizes)
    check_both_fail(*logits, WHOLE_MODEL[referee.dtype])


@pytest.mark.parametrize("sizes", [PREFILL, DECODE], ids=["prefill", "decode"])
@pytest.mark.parametrize("change", [{"rope_theta": 10_000.0}, {"rms_norm_eps": 1e-5}], ids=str)
def test_a_model_built_from_a_wrong_config_fails(
    change: dict[str, float], sizes: tuple[int, ...] | None, referee: Qwen2ForCausalLM
) -> None:
    config = replace(QwenConfig.from_dict(referee.config.to_dict()), **change)
    logits = _logits(candidate_of(referee, config=config), referee, sizes)
    check_both_fail(*logits, WHOLE_MODEL[referee.dtype])


@pytest.mark.parametrize("sizes", [PREFILL, DECODE], ids=["prefill", "decode"])
@pytest.mark.parametrize("projection", ["q_proj", "k_proj", "v_proj"])
def test_a_model_that_lost_one_bias_fails(
    projection: str, sizes: tuple[int, ...] | None, referee: Qwen2ForCausalLM
) -> None:
    candidate = candidate_of(referee)
    candidate.model.layers[1].self_attn.get_submodule(projection).bias.zero_()
    check_both_fail(*_logits(candidate, referee, sizes), WHOLE_MODEL[referee.dtype])


def test_decode_steps_whose_positions_start_again_fail(referee: Qwen2ForCausalLM) -> None:
    candidate = candidate_of(referee)

    def start_again(_: Module, args: tuple[Tensor]) -> tuple[Tensor, Tensor]:
        return args[0], torch.arange(args[0].shape[1])[None]

    candidate.register_forward_pre_hook(start_again)
    check_both_fail(*_logits(candidate, referee, DECODE), WHOLE_MODEL[referee.dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", LOW_BIT_TWINS)
def test_a_model_that_rounds_in_another_order_fails_equality_though_it_is_close(
    name: str, dtype: torch.dtype
) -> None:
    referee = build_referee(referee_config(), dtype)
    logits = _logits(candidate_of(referee, LOW_BIT_TWINS[name]), referee, PREFILL)
    check_close(*logits, WHOLE_MODEL[dtype])
    with pytest.raises(ComparisonError):
        check_same_bits(*logits)
