"""What augur raises beside the errors of the packages that it composes.

Messages name Python's arguments, methods of a conversation included; a program spells them its own
way: see `augur_gen.ArgumentError`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from augur_gen import ArgumentError, GenerationError, TextResult


class OptionError(ArgumentError):
    """Options with a wrong value, or that do not go together."""


class DeviceError(OptionError):
    """A device that this machine does not have."""


class NoRoomError(ArgumentError):
    """What is asked for needs more memory than the device has free; nothing was allocated."""


class PromptError(ArgumentError):
    """A prompt that this checkpoint cannot take as it was asked for."""


class ConversationError(PromptError):
    """Something that this conversation cannot do; it stays as it was."""


class ContextFullError(ConversationError):
    """The conversation and its next answer are longer than the context."""


class UnansweredError(GenerationError):
    """Some prompts of a batch have no answer; all others were answered.

    Attributes:
        answers: in the order of the prompts; None where there is none.
        errors: why, by the place of the prompt.
    """

    def __init__(
        self, answers: Sequence[TextResult | None], errors: Mapping[int, Exception]
    ) -> None:
        self.answers, self.errors = tuple(answers), dict(errors)
        place = min(errors)
        super().__init__(
            f"{len(errors)} of {len(answers)} prompts could not be answered, the first of them "
            f"prompt {place}: {errors[place]}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.answers, self.errors)
