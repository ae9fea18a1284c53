"""What augur raises beside the errors of the packages that it composes.

Messages name Python's arguments, methods of a conversation included; a program spells them its own
way: see `augur_gen.ArgumentError`.
"""

from augur_gen import ArgumentError


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
