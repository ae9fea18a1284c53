"""Opening what has a file's name: is it a file, does it belong there, and is it what it should be.

A checkpoint folder comes from strangers. In a file's place there may be a pipe that is waited for
without end, a link to a device that never ends or out of the folder, a pointer of Git LFS, or a
text that two readers understand differently. Each is refused before it does harm.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from augur_files.file_state import file_state
from augur_files.lfs_pointer import lfs_pointer
from augur_files.strict_json import StrictJSONError, parse_json

_KINDS = {
    stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


@dataclass(frozen=True)
class FileReader:
    """Reads files, and says in its owner's own error what is wrong with one.

    Each method raises ``error``, and nothing else, with a message that begins with the path.

    Attributes:
        error: makes the error from a message.
        max_bytes: the size of the largest text file that is read; JSON takes up to twenty times
            its size once it is parsed.
    """

    error: Callable[[str], Exception]
    max_bytes: int

    def is_file(self, path: Path) -> bool:
        """Whether there is a file, or a link to one; False only where nothing has the name.

        Raises:
            error: something else has the name, a link leads nowhere or out of its repository's part
                of the Hub's cache, or it cannot be looked at.
        """
        return self._is_there(path, stat.S_IFREG)

    def files_in(self, folder: Path, ending: str) -> list[Path]:
        """The files of a folder whose names end so, in order; none where there is no such folder.

        Raises:
            error: as ``is_file``, of the folder and of each file; or it cannot be listed.
        """
        if not self._is_there(folder, stat.S_IFDIR):
            return []
        try:
            paths = sorted(path for path in folder.iterdir() if path.name.endswith(ending))
        except OSError as error:
            raise self._unreadable(folder, error) from None
        return [path for path in paths if self.is_file(path)]

    def open(self, path: Path) -> BufferedReader:
        """Open a file's bytes; as ``is_file``, and there must be one that may be read."""
        if not self.is_file(path):
            raise self.error(f"{path}: there is no such file. Check the path, or fetch the file.")
        try:
            return path.open("rb")
        except OSError as error:
            raise self._unreadable(path, error) from None

    def state(self, path: Path) -> tuple[int, ...] | None:
        """The ``file_state`` of a file; ``None`` where nothing has the name; as ``is_file``."""
        try:
            return file_state(path) if self.is_file(path) else None
        except OSError as error:
            raise self._unreadable(path, error) from None

    def text(self, path: Path) -> str:
        r"""Read a text: UTF-8 whatever the locale, its line ends as ``\n``.

        Raises:
            error: as ``open``; or the file is too large, a Git LFS pointer, not UTF-8, or begins
                with a byte order mark, which some readers take for a part of the text.
        """
        with self.open(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > self.max_bytes:
                raise self.error(
                    f"{path}: has {size:,} bytes, expected at most {self.max_bytes:,}, as every "
                    "such file of a checkpoint has. Fetch the file again."
                )
            try:
                data = file.read(size + 1)
            except OSError as error:
                raise self._unreadable(path, error) from None
        if pointer := lfs_pointer(data[:1024], len(data)):
            raise self.error(f"{path}: {pointer}")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(
                f"{path}: is not UTF-8 text (byte {error.start}: {error.reason}). Fetch the file "
                "again."
            ) from None
        if text.startswith("\ufeff"):
            raise self.error(
                f"{path}: begins with a byte order mark, which some readers take for text. Save "
                "the file as UTF-8 without it."
            )
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def json_object(self, path: Path, text: str | None = None) -> dict[str, Any]:
        """Read a file that holds one JSON object; ``text`` is what it holds, if that was read.

        Raises:
            error: as ``text``; or it is not strictly JSON (see ``parse_json``), or no object.
        """
        try:
            value = parse_json(self.text(path) if text is None else text)
        except StrictJSONError as error:
            raise self.error(f"{path}: {error}. Fetch the file again.") from None
        if not isinstance(value, dict):
            raise self.error(
                f"{path}: holds a JSON {type(value).__name__}, expected an object ({{...}}). Fetch "
                "the file again."
            )
        return value

    def json_object_if_present(self, path: Path) -> dict[str, Any]:
        """As ``json_object``; empty where nothing has the file's name."""
        return self.json_object(path) if self.is_file(path) else {}

    def _is_there(self, path: Path, expected: int) -> bool:
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError, ValueError):  # no path holds a NUL
            return False
        except OSError as error:
            raise self._unreadable(path, error) from None
        self._refuse_foreign_link(path)
        try:
            kind = stat.S_IFMT(path.stat().st_mode)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP):
                raise self._unreadable(path, error) from None
            raise self.error(
                f"{path}: is a link that leads to no file (to {path.readlink()}). Put the file in "
                "its place, or fetch it again."
            ) from None
        if kind != expected:
            name = _KINDS[expected]
            raise self.error(
                f"{path}: is {_KINDS.get(kind, 'something else')}, expected {name}. Put the "
                f"{name.removeprefix('a ')} in its place."
            )
        return True

    def _refuse_foreign_link(self, path: Path) -> None:
        """Check that a file of a Hub snapshot lies in its own repository's part of the cache.

        There, links are huggingface_hub's own and lead to the repository's ``blobs``; one that
        leads elsewhere was put there. In any other folder links are its owner's, and are followed.
        """
        folder = _target(path.parent)
        # A file lies in the snapshot itself, or in one folder of it.
        snapshot = next(
            (one for one in (folder, folder.parent) if one.parent.name == "snapshots"), None
        )
        if snapshot is None:
            return
        repository = snapshot.parent.parent
        # blobs may itself be a link, by which an owner keeps large files on another disk.
        homes = (repository, _target(repository / "blobs"))
        target = _target(path)
        if not any(target.is_relative_to(home) for home in homes):
            raise self.error(
                f"{path}: is a link to {target}, expected a file of {repository}. Refused: delete "
                f"{repository} and fetch the model again."
            )

    def _unreadable(self, path: Path, error: OSError) -> Exception:
        return self.error(
            f"{path}: cannot be read: {error.strerror or error}. Check the path and the rights to "
            "it, or fetch the file again."
        )


def _target(path: Path) -> Path:
    """Where a path leads at last; for links in a circle, the path itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # links in a circle are a RuntimeError before 3.13
        return path.absolute()
