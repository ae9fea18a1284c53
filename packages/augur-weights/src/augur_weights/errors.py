"""What can go wrong between a name and checked tensors.

Every error of this package is a ``WeightsError`` whose message stands alone: what is wrong, in
which file or tensor, what was found, what was expected and what to do about it.
"""

from augur_files import one_line


class WeightsError(Exception):
    """Root of this package's errors; the message is one line of printable text."""

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
