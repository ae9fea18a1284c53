"""Where results are to be written, looked at before the work and not after it."""

import os
from pathlib import Path


class OutputPathError(ValueError):
    """A result could not be written there; the message says why."""


def check_output_file(option: str, path: Path) -> None:
    """Raise `OutputPathError` if no file can be written there.

    Args:
        option: that names it, for the message.
        path: of the file; one that is there will be replaced.
    """
    if path.is_dir():
        raise OutputPathError(f"{option} {path}: is a folder, expected a file. Name one in it")
    if not path.parent.is_dir():
        raise OutputPathError(f"{option} {path}: there is no folder {path.parent}. Make it first")
    _check_allowed(option, path, path if path.exists() else path.parent)


def check_output_folder(option: str, path: Path) -> None:
    """Raise `OutputPathError` if no folder can be there; arguments as above."""
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        raise OutputPathError(
            f"{option} {path}: {there} is a file, expected a folder. Name another"
        )
    _check_allowed(option, path, there)


def _check_allowed(option: str, path: Path, place: Path) -> None:
    if not os.access(place, os.W_OK):
        raise OutputPathError(f"{option} {path}: {place} may not be written to. Name another place")
