"""The errors this package raises."""

from pathlib import Path

from augur_files import one_line


class TokenizerError(ValueError):
    """A tokenizer file, a text or a token id that cannot be used; the message says what to do.

    The message is one line of printable text, whatever it quotes.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def broken_file(path: Path, what: str, advice: str = "Fetch the file again.") -> TokenizerError:
    """The error for a file that does not hold what it should; `what` goes after its name."""
    return TokenizerError(f"{path}: {what}. {advice}")


class ChatTemplateError(TokenizerError):
    """A chat that cannot be rendered: no template, unusable messages, or a template that fails."""
