"""What goes wrong in a batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MOST_REPORTED = 20


class BatchError(ValueError):
    """Files that cannot be used, or do not go together; the message says where and why.

    Attributes:
        lines: of the message; more than one where more than one thing is wrong.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


@contextmanager
def one_error_for_all(path: Path) -> Iterator["LineErrors"]:
    """Check every line of a file, and raise one `BatchError` that names each wrong one."""
    errors = LineErrors(path)
    yield errors
    found = errors.found
    if found:
        more = (
            [f"... and {len(found) - _MOST_REPORTED} more"] if len(found) > _MOST_REPORTED else []
        )
        raise BatchError(*found[:_MOST_REPORTED], *more)


class LineErrors:
    """What is wrong with which lines.

    Attributes:
        found: a message for each wrong line, with its number.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: list[str] = []

    @contextmanager
    def of_line(self, number: int) -> Iterator[None]:
        """Note a `BatchError` as one of this line, and go on."""
        try:
            yield
        except BatchError as error:
            self.found.append(f"{self._path}:{number}: {error}")
