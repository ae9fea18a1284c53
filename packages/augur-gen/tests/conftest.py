"""Small builders that the tests share: a random model, scripted logits, a clock that is set."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from augur_model import QwenConfig, QwenForCausalLM


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small lose more by sharing work between threads than they gain."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture
def config() -> QwenConfig:
    """Two layers, two key/value heads of width 8, a vocabulary of 61 and 512 positions."""
    return QwenConfig(
        vocab_size=61,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=512,
        rms_norm_eps=1e-6,
        rope_theta=1e6,
        attention_bias=True,
        tie_word_embeddings=False,
    )


@pytest.fixture
def make_model(config: QwenConfig) -> Callable[..., QwenForCausalLM]:
    """`make_model(seed=0, **options)`: random weights; options go to `QwenForCausalLM`."""

    def make(seed: int = 0, **options: Any) -> QwenForCausalLM:
        model = QwenForCausalLM(config, **options)
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in model.named_parameters():
            # Norm weights lie around 1; the rest keeps the size of what passes through it.
            centre = 1.0 if "norm" in name else 0.0
            parameter.normal_(centre, 0.2, generator=generator)
        return model

    return make


@pytest.fixture
def model(make_model: Callable[..., QwenForCausalLM]) -> QwenForCausalLM:
    return make_model()


@pytest.fixture
def prompt(config: QwenConfig) -> list[int]:
    """Nineteen token ids."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(config.vocab_size, (19,), generator=generator).tolist()


class ScriptedSteps:
    """`Steps` without a model: the logits single out one token id after another.

    `fed` records the token ids that each call got.
    """

    def __init__(self, token_ids: Iterable[int], before_each: Callable[[], None]) -> None:
        self.fed: list[list[int]] = []
        self._script = iter(token_ids)
        self._before_each = before_each

    def prefill(self, token_ids: Tensor) -> Tensor:
        self._before_each()
        self.fed.append(token_ids[0].tolist())
        return torch.nn.functional.one_hot(torch.tensor([next(self._script)]), 100).float()

    decode = prefill


@pytest.fixture
def scripted_steps() -> Callable[..., ScriptedSteps]:
    """`scripted_steps(token_ids, before_each=...)`."""

    def make(
        token_ids: Iterable[int], before_each: Callable[[], None] = lambda: None
    ) -> ScriptedSteps:
        return ScriptedSteps(token_ids, before_each)

    return make


class LogitSteps:
    """`Steps` without a model: rows of logits `[steps, vocab_size]`, one after another."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = iter(rows.split(1))

    def prefill(self, token_ids: Tensor) -> Tensor:  # noqa: ARG002
        return next(self._rows)

    decode = prefill


@pytest.fixture
def logit_steps() -> Callable[[Tensor], LogitSteps]:
    """`logit_steps(rows)`."""
    return LogitSteps


class FakeClock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def move(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
