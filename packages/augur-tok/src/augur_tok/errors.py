"""The errors this package raises."""

from augur_files import one_line


class TokenizerError(ValueError):
    """A tokenizer file, a text or a token id that cannot be used; the message says what to do.

    The message is one line of printable text, whatever it quotes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ChatTemplateError(TokenizerError):
    """A chat that cannot be rendered: no template, unusable messages, or a template that fails."""
