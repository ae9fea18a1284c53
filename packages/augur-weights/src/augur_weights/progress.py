"""How long work tells its caller how far it has come."""

from typing import Protocol


class Progress(Protocol):
    """A callback for work that takes seconds or minutes; ``None`` in its place means silence."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note of progress; called from time to time, on the thread that does the work.

        Args:
            stage: what is being done, a few words fit to show to a person.
            done: how much of the stage is done, in the unit of ``total``.
            total: how much there is to do, in bytes or tensors.
        """
