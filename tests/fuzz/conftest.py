"""What the fuzzers of the checkpoint's files have in common."""

import sys
from collections.abc import Iterator

import pytest

from reader_bounds import Tally


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Counts what the examples come to; `pytest -s` shows it."""
    tally = Tally(request.node.name)
    yield tally
    sys.stdout.write(f"{tally}\n")
    # Else the strategies would try nothing, or what they spoil would be refused unspoiled.
    assert tally.examples / 4 < tally.refused < tally.examples
