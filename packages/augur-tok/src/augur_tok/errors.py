"""The errors this package raises."""

# A message quotes files and templates that may be hostile; no true one is nearly as long.
MAX_MESSAGE = 1_900


class TokenizerError(ValueError):
    """A tokenizer file, a text or a token id that cannot be used; the message says what to do.

    The message is one line of printable text: what it quotes can neither begin what looks like a
    message of ours, nor steer the terminal, nor fill the screen.
    """

    def __init__(self, message: str) -> None:
        super().__init__(_shortened(_printable(_shortened(message))))


class ChatTemplateError(TokenizerError):
    """A chat that cannot be rendered: no template, unusable messages, or a template that fails."""


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shortened(text: str) -> str:
    if len(text) <= MAX_MESSAGE:
        return text
    half = MAX_MESSAGE // 2  # the end stays, because it says what to do
    return f"{text[:half]} ... {text[-half:]}"
