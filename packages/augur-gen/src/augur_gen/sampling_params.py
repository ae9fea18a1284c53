"""What a caller may ask of sampling."""

import dataclasses
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from augur_gen.checked_values import integer, real
from augur_gen.errors import ArgumentError
from augur_gen.read_only_dict import ReadOnlyDict

# Below it a difference of 1e-4 between two logits decides already, so 0 says the same but where two
# are equal, which a draw takes evenly; and no logit below 3e32 divided by it overflows float32.
MIN_TEMPERATURE = 1e-6
# Above it a difference of 10 between two logits changes a probability by a hundred thousandth.
MAX_TEMPERATURE = 1e6

# Far beyond any logit, so a larger one could decide nothing more; and all of them together, over
# ten million tokens, divided by the smallest temperature and penalty, stay finite in float32.
MAX_LOGIT_CHANGE = 1e24
# A factor and its reciprocal, likewise.
MAX_REPETITION_PENALTY = 1e6

# PyTorch's CPU generator looks at 32 bits of a seed: larger ones would repeat smaller ones.
SEED_BITS = 32

_SHARE = (real, 0, 1, "a number from 0 to 1")
_CHANGE = f"a number from -{MAX_LOGIT_CHANGE:g} to {MAX_LOGIT_CHANGE:g}"
_PENALTY = (real, -MAX_LOGIT_CHANGE, MAX_LOGIT_CHANGE, _CHANGE)

# Of what kind a value is, the smallest and the largest, and how to say so.
_RANGES: dict[str, tuple[Callable[[object], float | None], float, float, str]] = {
    "temperature": (
        real,
        0,
        MAX_TEMPERATURE,
        f"0 for greedy, or a number from {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}",
    ),
    "top_k": (integer, 1, math.inf, "an integer from 1 up"),
    "top_p": _SHARE,
    "min_p": _SHARE,
    "repetition_penalty": (
        real,
        1 / MAX_REPETITION_PENALTY,
        MAX_REPETITION_PENALTY,
        f"a number from {1 / MAX_REPETITION_PENALTY:g} to {MAX_REPETITION_PENALTY:g}",
    ),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "seed": (integer, 0, 2**SEED_BITS - 1, f"an integer from 0 to 2**{SEED_BITS} - 1"),
    "logprobs": (integer, 0, math.inf, "an integer from 0 up"),
}


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is drawn. The defaults draw from the model's own distribution.

    Bias and penalties act first, then temperature, top_k, top_p and min_p, in this order: see
    `process_logits`. Integers and numbers of any library are taken, and kept as Python's.

    Attributes:
        temperature: logits are divided by it: below 1 is more certain, above 1 more even; from 1e-6
            to 1e6. 0 takes the largest logit after bias and penalties, whatever top_k, top_p and
            min_p say; of equal ones that of the lowest id. Above 0 equal logits are equally likely,
            however small it is: in a narrow dtype the two largest often are.
        top_k: only the k largest logits, and what equals the k-th; 1 takes what temperature 0
            takes. None, or more than the vocabulary: all.
        top_p: only the most likely tokens whose probabilities together exceed it, at least one; of
            equal ones at the cut, the lowest ids. 1: all.
        min_p: only tokens at least this fraction as likely as the likeliest. 0: all.
        repetition_penalty: tokens of the prompt and of the text so far: positive logits are divided
            by it, negative ones multiplied, so above 1 makes them less likely; from 1e-6 to 1e6.
            1: off.
        presence_penalty: subtracted once from the logit of each token generated so far; from -1e24
            to 1e24. 0: off.
        frequency_penalty: subtracted from a token's logit once for each time it was generated; from
            -1e24 to 1e24. 0: off. Both count generated tokens only, as OpenAI's API and vLLM do.
        logit_bias: added to the logits of these token ids, from -1e24 to 1e24; -inf forbids one. A
            copy is kept, which cannot be changed.
        seed: of the random numbers, `0 .. 2**32 - 1`. None: a fresh one, which
            `GenerationResult.sampling` tells.
        logprobs: report the log-probability of each chosen token, and of this many most likely
            ones beside it, all from the raw logits. None: report none.

    Raises:
        ArgumentError: a value is of another type or outside its range.
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
        for name, (kind, lowest, highest, expected) in _RANGES.items():
            given = getattr(self, name)
            if given is None and kind is integer:
                continue
            value = kind(given)
            too_small = name == "temperature" and value is not None and 0 < value < MIN_TEMPERATURE
            if value is None or too_small or not lowest <= value <= highest:
                raise ArgumentError(f"{{{name}}} is %r, expected %s", given, expected)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "logit_bias", _checked_bias(self.logit_bias))

    @property
    def is_greedy(self) -> bool:
        """Whether nothing is drawn: the largest logit is taken, after bias and penalties."""
        return self.temperature == 0 or self.top_k == 1

    def with_seed(self) -> "SamplingParams":
        """The same with a seed: its own, or a fresh random one where it draws and has none."""
        if self.seed is not None or self.is_greedy:
            return self
        return dataclasses.replace(self, seed=secrets.randbits(SEED_BITS))

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raise `ArgumentError` if logit_bias names an id that the vocabulary does not have."""
        for token_id in self.logit_bias:
            if token_id >= vocab_size:
                raise ArgumentError(
                    "{logit_bias} names token %d; the model's vocabulary is 0 to %d",
                    token_id,
                    vocab_size - 1,
                )


def _checked_bias(logit_bias: object) -> ReadOnlyDict[int, float]:
    if not isinstance(logit_bias, Mapping):
        raise ArgumentError(
            "{logit_bias} is %r, expected a mapping from token ids to numbers", logit_bias
        )
    checked: dict[int, float] = {}
    for key, given in logit_bias.items():
        token_id, bias = integer(key), real(given)
        if token_id is None or token_id < 0:
            raise ArgumentError(
                "{logit_bias} has the key %r, expected token ids, integers from 0 up", key
            )
        if bias is None or not (bias == -math.inf or abs(bias) <= MAX_LOGIT_CHANGE):
            raise ArgumentError(
                "{logit_bias} of token %d is %r, expected %s, or -inf", token_id, given, _CHANGE
            )
        checked[token_id] = bias
    return ReadOnlyDict(checked)
