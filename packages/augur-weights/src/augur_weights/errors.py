"""What can go wrong between a name and checked tensors.

Every error of this package is a ``WeightsError`` whose message stands alone: what is wrong, in
which file or tensor, what was found, what was expected and what to do about it.
"""

# A message quotes names out of files that may be hostile; no true one is nearly as long.
_MAX_MESSAGE_CHARACTERS = 2000


class WeightsError(Exception):
    """Root of this package's errors.

    The message is one line of printable text: what it quotes from a file can neither break the
    line, nor steer the terminal, nor fill the screen.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class SourceError(WeightsError):
    """A name does not lead to a checkpoint: unknown, unreachable, forbidden or not whole."""


class CheckpointError(WeightsError):
    """A checkpoint folder, one of its files or one of its tensors is not what it must be."""


class GGUFError(WeightsError):
    """A GGUF file cannot be read, or holds a model that cannot be imported."""


class EmbeddedModelError(WeightsError):
    """The default model's embedded parts are missing, damaged or do not fit together."""


def one_line(text: str) -> str:
    """One line of printable text of at most 2000 characters, whatever ``text`` quotes."""
    return _shortened(_printable(text))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shortened(text: str) -> str:
    if len(text) <= _MAX_MESSAGE_CHARACTERS:
        return text
    # The end stays, because it says what to do.
    half = _MAX_MESSAGE_CHARACTERS // 2 - 3
    return f"{text[:half]} ... {text[-half:]}"
