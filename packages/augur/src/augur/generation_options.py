"""How to continue a text: the options that programs share, and what is made of them.

A program declares the options with the types of `option_types`, puts what it was given into
`GivenOptions`, and asks that for `GenerationOptions`, which `Engine.generate` takes.
"""

import dataclasses
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from augur.generation_config import settings_of
from augur_gen import GenerationError, SamplingParams, StopConditions, StopStrings
from augur_weights import Checkpoint

DEFAULT_MAX_NEW_TOKENS = 256
SEEDS = range(2**32)
"""What a seed may be."""

_SAMPLING = tuple(field.name for field in dataclasses.fields(SamplingParams))
# These choose among random draws, and say nothing where the likeliest token is taken.
_OF_DRAWS = ("top_k", "top_p", "min_p", "seed")
# How messages name what an option sets, where it is not the option's own name.
_SPOKEN = {"max_time_s": "--max-time", "a stop string": "--stop"}


class OptionError(GenerationError):
    """Options with a wrong value, or that do not go together; the message names them."""


@dataclass(frozen=True)
class GenerationOptions:
    """How to continue a text.

    Attributes:
        max_new_tokens: at most this many tokens.
        sampling: how to choose; None is the raw argmax.
        stop_strings: any of them ends the text and is cut off.
        stop_token_ids: any of them ends the text, beside the checkpoint's EOS ids.
        min_new_tokens: no EOS or stop token before there are this many.
        max_time_s: seconds; None: no limit.
    """

    max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS
    sampling: SamplingParams | None = None
    stop_strings: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    min_new_tokens: int = 0
    max_time_s: float | None = None

    @property
    def is_random(self) -> bool:
        """Whether tokens are drawn, so that another seed may give another text."""
        return self.sampling is not None and self.sampling.temperature > 0

    def with_seed(self, seed: int) -> "GenerationOptions":
        """The same with this seed where tokens are drawn; elsewhere the same."""
        if self.sampling is None or not self.is_random:
            return self
        return dataclasses.replace(self, sampling=dataclasses.replace(self.sampling, seed=seed))

    def samples(self, num_samples: int) -> Iterator["GenerationOptions"]:
        """For so many texts, with seeds that count up from this one, or from a fresh one.

        Raises:
            OptionError: all texts would be the same.
        """
        if num_samples == 1:
            return iter([self])
        if self.sampling is None or not self.is_random:
            raise _same_samples(num_samples)
        first = self.sampling.with_seed().seed or 0
        return (self.with_seed((first + i) % len(SEEDS)) for i in range(num_samples))

    def stop_conditions(self, eos_token_ids: frozenset[int]) -> StopConditions:
        """The part that looks at tokens and time."""
        return StopConditions(
            self.max_new_tokens,
            eos_token_ids,
            self.stop_token_ids,
            self.min_new_tokens,
            self.max_time_s,
        )


@dataclass(frozen=True)
class GivenOptions:
    """What a person gave on the command line; None, or an empty list, is what was not given.

    Without any, generation is greedy: the raw argmax. A temperature above 0 draws; top_k, top_p,
    min_p and seed are about draws and refused without one. Penalties, bias and logprobs go with
    both.

    Attributes:
        logit_bias: each "ID=VALUE".
        stop: the stop strings.
        max_time: seconds.
        use_generation_config: what was not given is taken from the checkpoint's
            generation_config.json, as transformers reads it.

    Raises:
        OptionError: a value outside its range, or options that do not go together.
    """

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: list[str] | None = None
    seed: int | None = None
    logprobs: int | None = None
    stop: list[str] | None = None
    stop_token_id: list[int] | None = None
    min_new_tokens: int | None = None
    max_time: float | None = None
    use_generation_config: bool = False
    default_max_new_tokens: int = field(default=DEFAULT_MAX_NEW_TOKENS, kw_only=True)

    def __post_init__(self) -> None:
        if not self.use_generation_config:
            self.options(None)
            return
        # The rest depends on the file.
        given = self._given()
        _sampling(given)
        _options({"max_new_tokens": sys.maxsize} | _without_sampling(given), None)
        if self.temperature == 0:
            self._refuse_options_of_draws()

    def check_samples(self, num_samples: int) -> None:
        """Refuse several samples as soon as it is certain that all would be the same.

        Raises:
            OptionError: as `GenerationOptions.samples`, without looking at a checkpoint.
        """
        is_greedy = self.temperature is None and not self.use_generation_config
        if num_samples > 1 and (is_greedy or self.temperature == 0):
            raise _same_samples(num_samples)

    def options(self, folder: Path | None) -> GenerationOptions:
        """All of it together.

        Args:
            folder: of the checkpoint; looked at only with `use_generation_config`.

        Raises:
            OptionError: as for the class.
            CheckpointError: the file asks for what is not supported, or has a wrong value.
        """
        given, settings = self._given(), {}
        if self.use_generation_config and folder is not None:
            settings = settings_of(Checkpoint(folder))
        if not settings.pop("do_sample", False):
            settings["temperature"] = 0.0
        values = {"max_new_tokens": self.default_max_new_tokens} | settings | given
        if values.get("temperature") == 0:
            self._refuse_options_of_draws()
            values = {name: value for name, value in values.items() if name not in _OF_DRAWS}
        _check_minimum(values, given, settings)
        sampling = _sampling(values)
        # The raw argmax needs no pipeline.
        chosen = None if sampling == SamplingParams(temperature=0) else sampling
        return _options(_without_sampling(values), chosen)

    def _given(self) -> dict[str, Any]:
        """What was given, under the names of `GenerationOptions` and `SamplingParams`."""
        values = {name: getattr(self, name) for name in _SAMPLING if name != "logit_bias"}
        values |= {
            "max_new_tokens": self.max_new_tokens,
            "min_new_tokens": self.min_new_tokens,
            "max_time_s": self.max_time,
            "logit_bias": _biases(self.logit_bias) if self.logit_bias else None,
            "stop_strings": tuple(self.stop) if self.stop else None,
            "stop_token_ids": frozenset(self.stop_token_id) if self.stop_token_id else None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def _refuse_options_of_draws(self) -> None:
        for name in _OF_DRAWS:
            if getattr(self, name) is not None:
                option = _option(name)
                why = "at temperature 0" if self.temperature == 0 else "without a temperature"
                raise OptionError(
                    f"{option} is about random draws, and {why} nothing is drawn: the likeliest "
                    f"token is taken. Give --temperature above 0 (1 draws from the model's own "
                    f"distribution), or leave {option} out"
                )


def _same_samples(num_samples: int) -> OptionError:
    return OptionError(
        f"--n is {num_samples}, and without a temperature all texts would be the same. Give "
        "--temperature above 0, or leave --n out"
    )


def _check_minimum(
    values: Mapping[str, Any], given: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Say where each of the two comes from: nobody is told of an option that they did not give."""
    least, most = values.get("min_new_tokens", 0), values["max_new_tokens"]
    if least <= most:
        return

    def spoken(name: str) -> str:
        in_file = name in settings and name not in given
        return f"{name} of generation_config.json" if in_file else _option(name)

    is_default = "max_new_tokens" not in given and "max_new_tokens" not in settings
    raise OptionError(
        f"{spoken('min_new_tokens')} is {least}, expected 0 to {spoken('max_new_tokens')}, which "
        f"is {most}{' unless given' if is_default else ''}. Give another --max-new-tokens or "
        "--min-new-tokens"
    )


def _without_sampling(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in _SAMPLING}


def _sampling(values: Mapping[str, Any]) -> SamplingParams:
    with _named_as_options():
        return SamplingParams(**{k: v for k, v in values.items() if k in _SAMPLING})


def _options(values: Mapping[str, Any], sampling: SamplingParams | None) -> GenerationOptions:
    options = GenerationOptions(**values, sampling=sampling)
    with _named_as_options():
        options.stop_conditions(frozenset())
        StopStrings(options.stop_strings)
    return options


def _biases(given: list[str]) -> dict[int, float]:
    biases: dict[int, float] = {}
    for entry in given:
        token_id, _, value = entry.partition("=")
        try:
            bias = {int(token_id): float(value)}
        except ValueError:
            raise OptionError(
                f"--logit-bias is {entry!r}, expected ID=VALUE, such as 151645=-2.5, or ID=-inf to "
                "forbid a token"
            ) from None
        if biases.keys() & bias.keys():
            raise OptionError(f"--logit-bias names token {token_id} twice; give it once")
        biases |= bias
    return biases


def _option(name: str) -> str:
    return _SPOKEN.get(name, "--" + name.replace("_", "-"))


@contextmanager
def _named_as_options() -> Iterator[None]:
    """Errors speak of the command line: options, and no None."""
    names = (*_SAMPLING, *_SPOKEN, "max_new_tokens", "min_new_tokens")
    try:
        yield
    except GenerationError as error:
        message = re.sub(r",? or None[^,;]*", "", str(error))
        message = re.sub("|".join(names), lambda found: _option(found.group()), message)
        raise OptionError(message) from None
