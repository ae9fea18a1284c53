"""What a conversation refuses."""

from engine import PromptError


class ConversationError(PromptError):
    """Something that this conversation cannot do; it stays as it was."""


class ContextFullError(ConversationError):
    """The conversation and its next answer are longer than the context."""
