"""What a caller may ask of sampling."""

import dataclasses
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from augur_gen.errors import GenerationError

# Below it a difference of 1e-4 between two logits decides already, so 0 says the same; and no
# logit below 3e32 divided by it overflows float32.
MIN_TEMPERATURE = 1e-6

# PyTorch's CPU generator looks at 32 bits of a seed: larger ones would repeat smaller ones.
SEED_BITS = 32


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is drawn. The defaults draw from the model's own distribution.

    Bias and penalties act first, then temperature, top_k, top_p and min_p, in this order: see
    `process_logits`.

    Attributes:
        temperature: logits are divided by it: below 1 is more certain, above 1 more even. 0 takes
            the largest logit after bias and penalties, whatever top_k, top_p and min_p say.
        top_k: only the k largest logits, and what equals the k-th. None, or more than the
            vocabulary: all.
        top_p: only the most likely tokens whose probabilities together exceed it, at least one.
            1: all.
        min_p: only tokens at least this fraction as likely as the likeliest. 0: all.
        repetition_penalty: tokens of the prompt and of the text so far: positive logits are divided
            by it, negative ones multiplied, so above 1 makes them less likely. 1: off.
        presence_penalty: subtracted once from the logit of each token generated so far. 0: off.
        frequency_penalty: subtracted from a token's logit once for each time it was generated.
            0: off. Both count generated tokens only, as OpenAI's API and vLLM do.
        logit_bias: added to the logits of these token ids; -inf forbids one.
        seed: of the random numbers, `0 .. 2**32 - 1`. None: a fresh one, which
            `GenerationResult.sampling` tells.
        logprobs: report the log-probability of each chosen token, and of this many most likely
            ones beside it, all from the raw logits. None: report none.

    Raises:
        GenerationError: a value is of another type or outside its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)
    seed: int | None = None
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, expected, allows in (
            (
                "temperature",
                f"0 for greedy, or a finite number from {MIN_TEMPERATURE:g} up",
                lambda value: value == 0 or MIN_TEMPERATURE <= value < math.inf,
            ),
            ("top_p", "a number from 0 to 1", lambda value: 0 <= value <= 1),
            ("min_p", "a number from 0 to 1", lambda value: 0 <= value <= 1),
            ("repetition_penalty", "a finite number above 0", lambda value: 0 < value < math.inf),
            ("presence_penalty", "a finite number", math.isfinite),
            ("frequency_penalty", "a finite number", math.isfinite),
        ):
            value = getattr(self, name)
            if not (_is_number(value) and allows(value)):
                raise GenerationError(f"{name} is {value!r}, expected {expected}")
        for name, lowest, highest, expected in (
            ("top_k", 1, math.inf, "an integer from 1 up, or None for all"),
            ("seed", 0, 2**SEED_BITS - 1, f"an integer from 0 to 2**{SEED_BITS} - 1, or None"),
            ("logprobs", 0, math.inf, "an integer from 0 up, or None for none"),
        ):
            value = getattr(self, name)
            if value is not None and not (_is_integer(value) and lowest <= value <= highest):
                raise GenerationError(f"{name} is {value!r}, expected {expected}")
        # A copy, so that a change of the caller's dict does not reach a generation under way.
        object.__setattr__(self, "logit_bias", _checked_bias(self.logit_bias))

    def with_seed(self) -> "SamplingParams":
        """The same with a seed: its own, or a fresh random one where it draws and has none."""
        if self.seed is not None or self.temperature == 0:
            return self
        return dataclasses.replace(self, seed=secrets.randbits(SEED_BITS))

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raise `GenerationError` if logit_bias names an id that the vocabulary does not have."""
        for token_id in self.logit_bias:
            if token_id >= vocab_size:
                raise GenerationError(
                    f"logit_bias names token {token_id}; the model's vocabulary is 0 to "
                    f"{vocab_size - 1}"
                )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, float) or _is_integer(value)


def _checked_bias(logit_bias: object) -> dict[int, float]:
    if not isinstance(logit_bias, Mapping):
        raise GenerationError(
            f"logit_bias is {logit_bias!r}, expected a mapping from token ids to numbers"
        )
    for token_id, bias in logit_bias.items():
        if not (_is_integer(token_id) and token_id >= 0):
            raise GenerationError(
                f"logit_bias has the key {token_id!r}, expected token ids, integers from 0 up"
            )
        if not (_is_number(bias) and bias < math.inf):
            raise GenerationError(
                f"logit_bias of token {token_id} is {bias!r}, expected a finite number, or -inf"
            )
    return dict(logit_bias)
