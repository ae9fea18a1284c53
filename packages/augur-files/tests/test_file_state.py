"""Another file or other content is another state; looking and reading change none."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from augur_files import file_state


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    status = path.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def written_to_and_set_back(path: Path) -> None:
    status = path.stat()
    path.write_bytes(b"b" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a"
    path.write_bytes(b"a" * 9)
    os.utime(path, ns=(0, 0))
    return path


def test_looking_and_reading_change_nothing(path: Path) -> None:
    before = file_state(path)
    with path.open("rb") as file:
        assert file_state(file.fileno()) == before
        file.read()
    assert file_state(path) == before


@pytest.mark.parametrize("change", [replaced, written_to_and_set_back])
def test_a_change_shows_though_size_and_time_are_the_same(
    path: Path, change: Callable[[Path], None]
) -> None:
    before, status = file_state(path), path.stat()
    change(path)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert file_state(path) != before


def test_a_file_that_is_gone_is_an_error(path: Path) -> None:
    path.unlink()
    with pytest.raises(FileNotFoundError):
        file_state(path)
