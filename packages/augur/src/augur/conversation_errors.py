"""What a conversation refuses, and what ends it."""

from augur.engine import PromptError


class ConversationError(PromptError):
    """Something that this conversation cannot do; it stays as it was."""


class ContextFullError(ConversationError):
    """The conversation and its next answer are longer than the context."""


class OutputLostError(Exception):
    """Nothing can be written to stdout any more.

    Attributes:
        error: why.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error
