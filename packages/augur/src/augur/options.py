"""How to continue a text: what a caller may say, and what is made of it.

Without any option generation is greedy: the raw argmax. A temperature above 0 draws; top_k, top_p,
min_p and seed are about draws and refused without one. Penalties, bias and logprobs go with both.
"""

import dataclasses
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from augur.errors import OptionError
from augur_gen import Constraint, SamplingParams, StopConditions, StopStrings

DEFAULT_MAX_NEW_TOKENS = 256
SEEDS = range(2**32)
"""What a seed may be."""

SAMPLING = tuple(field.name for field in dataclasses.fields(SamplingParams))
# These choose among random draws, and say nothing where the likeliest token is taken.
_OF_DRAWS = ("top_k", "top_p", "min_p", "seed")


class Options(TypedDict, total=False):
    """The keyword arguments of every call that generates; None is as good as left out.

    Those that `SamplingParams` and `StopConditions` have mean what they mean there. stop_strings is
    one or a list. `constraint` makes a fresh `augur_gen.Constraint` for each text.
    `use_generation_config` takes what is left out from the checkpoint's generation_config.json, as
    transformers reads it.
    """

    max_new_tokens: int | None
    min_new_tokens: int | None
    max_time_s: float | None
    stop_strings: str | Collection[str] | None
    stop_token_ids: Collection[int] | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None
    seed: int | None
    logprobs: int | None
    constraint: Callable[[], Constraint] | None
    use_generation_config: bool


@dataclass(frozen=True)
class GenerationOptions:
    """How to continue a text, decided.

    Attributes:
        max_new_tokens: at most this many tokens.
        sampling: how to choose; None is the raw argmax.
        stop_strings: any of them ends the text and is cut off.
        stop_token_ids: any of them ends the text, beside the checkpoint's EOS ids.
        min_new_tokens: no EOS or stop token before there are this many.
        max_time_s: seconds; None: no limit.
        constraint: makes what each text is chosen under; None: anything may be said.
    """

    max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS
    sampling: SamplingParams | None = None
    stop_strings: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    min_new_tokens: int = 0
    max_time_s: float | None = None
    constraint: Callable[[], Constraint] | None = None

    @property
    def is_random(self) -> bool:
        """Whether tokens are drawn, so that another seed may give another text."""
        return self.sampling is not None and not self.sampling.is_greedy

    def with_seed(self, seed: int) -> "GenerationOptions":
        """The same with this seed where tokens are drawn; elsewhere the same."""
        if self.sampling is None or not self.is_random:
            return self
        return dataclasses.replace(self, sampling=dataclasses.replace(self.sampling, seed=seed))

    def seeded(self) -> "GenerationOptions":
        """The same with a seed, its own or a fresh one, where tokens are drawn."""
        if self.sampling is None:
            return self
        return dataclasses.replace(self, sampling=self.sampling.with_seed())

    def samples(self, num_samples: int, first: int = 0) -> Iterator["GenerationOptions"]:
        """For so many texts, with seeds that count up from this one, or from a fresh one.

        Args:
            num_samples: texts.
            first: how many texts come before them.
        """
        seeded = self.seeded()
        seed = 0 if seeded.sampling is None else seeded.sampling.seed or 0
        return (seeded.with_seed((seed + first + i) % len(SEEDS)) for i in range(num_samples))

    def stop_conditions(self, eos_token_ids: frozenset[int]) -> StopConditions:
        """The part that looks at tokens and time."""
        return StopConditions(
            self.max_new_tokens,
            eos_token_ids,
            self.stop_token_ids,
            self.min_new_tokens,
            self.max_time_s,
        )

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raise `ArgumentError` if an option names an id that the vocabulary does not have."""
        if self.sampling is not None:
            self.sampling.check_vocabulary(vocab_size)
        for token_id in self.stop_token_ids:
            if not 0 <= token_id < vocab_size:
                raise OptionError(
                    "{stop_token_ids} names token %d; the model's vocabulary is 0 to %d",
                    token_id,
                    vocab_size - 1,
                )


def check_options(given: Options) -> None:
    """See, before there is a checkpoint, that what was given can be had with some checkpoint.

    Raises:
        TypeError: an option that does not exist.
        ArgumentError: a value outside its range, or options that do not go together.
    """
    said = _said(given)
    if not said.pop("use_generation_config", False):
        decide(given)
        return
    # The rest depends on the file.
    _decided({"max_new_tokens": sys.maxsize} | said)
    if said.get("temperature") == 0:
        _refuse_options_of_draws(said)


def decide(
    given: Options,
    settings: Mapping[str, Any] | None = None,
    default_max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS,
) -> GenerationOptions:
    """All of it together.

    Args:
        given: what the caller said.
        settings: what the checkpoint's file sets, as `generation_config.settings_of` gives it.
        default_max_new_tokens: where neither says one.

    Raises:
        TypeError: an option that does not exist.
        ArgumentError: a value outside its range, or options that do not go together.
    """
    said, from_file = _said(given), dict(settings or {})
    said.pop("use_generation_config", None)
    if not from_file.pop("do_sample", False):
        from_file["temperature"] = 0.0
    values = {"max_new_tokens": default_max_new_tokens} | from_file | said
    if values.get("temperature") == 0:
        _refuse_options_of_draws(said)
        values = {name: value for name, value in values.items() if name not in _OF_DRAWS}
    _check_minimum(values, said, from_file)
    return _decided(values)


def _said(given: Options) -> dict[str, Any]:
    unknown = sorted(given.keys() - Options.__annotations__.keys())
    if unknown:
        known = ", ".join(Options.__annotations__)
        raise TypeError(f"there is no option {unknown[0]!r}; there are {known}")
    return {name: value for name, value in given.items() if value is not None}


def _decided(values: dict[str, Any]) -> GenerationOptions:
    sampling = SamplingParams(**{name: values.pop(name) for name in SAMPLING if name in values})
    strings = values.pop("stop_strings", ())
    if not isinstance(strings, Collection):
        raise OptionError("{stop_strings} is %r, expected a string or a list of strings", strings)
    options = GenerationOptions(
        # The raw argmax needs no pipeline.
        sampling=None if sampling == SamplingParams(temperature=0) else sampling,
        stop_strings=(strings,) if isinstance(strings, str) else tuple(strings),
        **values,
    )
    if options.constraint is not None and not callable(options.constraint):
        raise OptionError(
            "{constraint} is %r, expected a function that makes a constraint for each text",
            options.constraint,
        )
    StopStrings(options.stop_strings)
    stop = options.stop_conditions(frozenset())
    return dataclasses.replace(options, stop_token_ids=stop.stop_token_ids)


def _refuse_options_of_draws(said: Mapping[str, Any]) -> None:
    for name in _OF_DRAWS:
        if name in said:
            why = "at temperature 0" if said.get("temperature") == 0 else "without a temperature"
            raise OptionError(
                f"{{{name}}} is about random draws, and {why} nothing is drawn: the likeliest "
                "token is taken. Give {temperature} above 0 (1 draws from the model's own "
                f"distribution), or leave {{{name}}} out"
            )


def _check_minimum(
    values: Mapping[str, Any], said: Mapping[str, Any], from_file: Mapping[str, Any]
) -> None:
    """Say where each of the two comes from: nobody is told of an option that they did not give."""
    least, most = values.get("min_new_tokens", 0), values["max_new_tokens"]
    if not (isinstance(least, int) and isinstance(most, int)) or least <= most or most < 1:
        return  # what is wrong with one alone is told of that one

    def spoken(name: str) -> str:
        in_file = name in from_file and name not in said
        return f"{name} of generation_config.json" if in_file else f"{{{name}}}"

    is_default = "max_new_tokens" not in said and "max_new_tokens" not in from_file
    raise OptionError(
        f"{spoken('min_new_tokens')} is %d, expected 0 to {spoken('max_new_tokens')}, which is "
        f"%d{' unless given' if is_default else ''}. Give another {{max_new_tokens}} or "
        "{min_new_tokens}",
        least,
        most,
    )
