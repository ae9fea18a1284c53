"""The budget sees what it says it sees, and lets correct rounding pass."""

import pytest
import torch

from augur_proof.kernels import OPS, Expected, judge, smallest_seen

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def exact(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def expected(oracle: torch.Tensor) -> Expected:
    return Expected("out", ("row", "column"), oracle, oracle.abs(), oracle.abs())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_correct_rounding_holds_beside_itself_and_beside_two_roundings(dtype: torch.dtype) -> None:
    oracle = exact((200, 300))
    once = oracle.to(dtype)
    twice = (once * torch.tensor(3.0, dtype=dtype)) / torch.tensor(3.0, dtype=dtype)
    assert judge(once, once, expected(oracle)).held
    assert judge(once, twice, expected(oracle)).share < 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_another_rounding_than_the_plain_ops_is_too_much(dtype: torch.dtype) -> None:
    oracle = exact((200, 300))
    once = oracle.to(dtype)
    twice = (oracle * 1.3).to(dtype).double().div(1.3).to(dtype)
    assert judge(twice, once, expected(oracle)).worst in {"rms", "largest"}
    assert not judge(twice, once, expected(oracle)).held


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_bias_far_below_one_rounding_is_seen(dtype: torch.dtype) -> None:
    oracle = exact((200, 300))
    small = 0.15 * torch.finfo(dtype).eps
    judged = judge((oracle * (1 + small)).to(dtype), oracle.to(dtype), expected(oracle))
    assert judged.worst == "bias"
    assert not judged.held


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_beyond_any_budget_and_is_placed(
    dtype: torch.dtype, bad: float
) -> None:
    oracle = exact((7, 9))
    found = oracle.to(dtype)
    found[3, 5] = bad
    judged = judge(found, oracle.to(dtype), expected(oracle))
    assert not judged.held
    assert judged.candidate.index == (3, 5)
    assert judged.wrong.nonzero().tolist() == [[3, 5]]


def test_where_the_plain_op_overflows_nothing_is_asked() -> None:
    oracle = exact((7, 9))
    oracle[0, 0] = 1e6
    plain = oracle.half()
    found = plain.clone()
    found[0, 0] = 65504
    assert judge(found, plain, expected(oracle)).held
    with pytest.raises(ValueError, match="tells nothing"):
        judge(plain[:1, :1], plain[:1, :1], expected(oracle[:1, :1]))


@pytest.mark.gate
@pytest.mark.parametrize(
    ("dtype", "scaled", "noise"),
    [
        (torch.float32, 2**-21, 2**-20),
        (torch.bfloat16, 2**-10, 2**-8),
        (torch.float16, 2**-13, 2**-10),
    ],
    ids=str,
)
def test_the_power_that_the_page_states_is_there(
    dtype: torch.dtype, scaled: float, noise: float
) -> None:
    assert smallest_seen(OPS["rms_norm"], dtype, "all too large by") <= scaled
    assert smallest_seen(OPS["rms_norm"], dtype, "noise of") <= noise
