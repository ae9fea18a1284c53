"""Small builders and comparisons that the tests share. All values are seeded."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from augur_model import EAGER, KVCache, Ops, QwenConfig, QwenForCausalLM


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small lose more by sharing work between threads than they gain."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture
def config_json() -> dict[str, Any]:
    """A tiny `config.json` as transformers 4 writes it; head_dim follows from the other sizes."""
    return {
        "model_type": "qwen2",
        "hidden_act": "silu",
        "vocab_size": 151,
        "hidden_size": 32,
        "intermediate_size": 56,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": False,
    }


@pytest.fixture
def make_model(config_json: dict[str, Any]) -> Callable[..., QwenForCausalLM]:
    """`make_model(ops=EAGER, **changes)`: random weights, the tiny config with `changes`."""

    def make(ops: Ops = EAGER, **changes: Any) -> QwenForCausalLM:
        model = QwenForCausalLM(QwenConfig.from_dict(config_json | changes), ops)
        generator = torch.Generator().manual_seed(0)
        for name, parameter in model.named_parameters():
            # Norm weights lie around 1; the rest keeps the size of what passes through it.
            centre = 1.0 if "norm" in name else 0.0
            parameter.normal_(centre, 0.2, generator=generator)
        return model

    return make


class ConcatCache(KVCache):
    """The plainest `KVCache`: new keys and values are appended to a copy of the old ones."""

    def __init__(self, num_rows: int) -> None:
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._lengths = (0,) * num_rows

    @property
    def lengths(self) -> tuple[int, ...]:
        return self._lengths

    def check_room(self, num_tokens: int | Sequence[int]) -> None:
        """There is always room."""

    def update(self, layer_index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if layer_index in self.layers:
            old_keys, old_values = self.layers[layer_index]
            keys, values = torch.cat((old_keys, keys), 2), torch.cat((old_values, values), 2)
        self.layers[layer_index] = keys, values
        return keys, values

    def advance(self, num_tokens: int | Sequence[int]) -> None:
        new = self.by_row(num_tokens)
        self._lengths = tuple(map(sum, zip(self._lengths, new, strict=True)))


@pytest.fixture
def make_cache() -> Callable[..., KVCache]:
    """`make_cache(num_rows=1)`: an empty cache for rows of one length."""

    def make(num_rows: int = 1) -> KVCache:
        return ConcatCache(num_rows)

    return make


@pytest.fixture
def assert_op_close() -> Callable[[Tensor, Tensor], None]:
    """Equal in shape and dtype, and in value as closely as two implementations of one op can be.

    A few units in the last place of each dtype; the absolute part is for values near zero.
    """
    tolerances = {
        torch.float32: {"atol": 1e-5, "rtol": 1.3e-6},
        torch.float16: {"atol": 1e-3, "rtol": 1e-3},
        torch.bfloat16: {"atol": 1e-3, "rtol": 1.6e-2},
    }

    def compare(actual: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(actual, expected, **tolerances[expected.dtype])

    return compare


@pytest.fixture
def assert_same_rounding() -> Callable[[Tensor, Tensor], None]:
    """Equal bit for bit but for rare ties.

    A float64 reference and a float32 op fall on different sides of a rounding boundary about once
    in 5,000 times in float16; an op that rounds at another step differs in every third value.
    """

    def compare(actual: Tensor, expected: Tensor) -> None:
        assert actual.dtype == expected.dtype
        equal = (actual == expected).double().mean()
        assert equal > 0.99, f"not close: {equal:.1%} of the values are equal"

    return compare


@pytest.fixture
def left_unmodified() -> Callable[..., AbstractContextManager[None]]:
    """`with left_unmodified(*tensors):` fails if the block writes into any of them."""

    @contextmanager
    def watch(*tensors: Tensor) -> Iterator[None]:
        before = [tensor.clone() for tensor in tensors]
        yield
        for tensor, copy in zip(tensors, before, strict=True):
            assert torch.equal(tensor, copy), "an input was modified"

    return watch
