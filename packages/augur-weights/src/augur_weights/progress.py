"""How long work tells its caller how far it has come."""

from typing import Protocol


class Progress(Protocol):
    """A callback for work that takes seconds or minutes; ``None`` in its place means silence."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note that ``done`` of ``total`` bytes of a stage are done, on the working thread.

        The stage is what is being done, a few words fit to show to a person.
        """
