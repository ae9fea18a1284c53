"""Which files a checkpoint folder holds: what is there and no file is not passed over."""

import stat
from collections.abc import Iterator
from pathlib import Path

from augur_tok.errors import TokenizerError

KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def is_there(path: Path) -> bool:
    """Whether there is a file of this name; False only where there is nothing of this name.

    Raises:
        TokenizerError: there is something else, a link that leads nowhere, or a link out of a
            snapshot of the Hub.
    """
    return _kind_at(path, stat.S_IFREG, "a file")


def files_in(folder: Path, ending: str) -> Iterator[Path]:
    """The files of a folder whose names end so, in order; none where there is no such folder.

    Raises:
        TokenizerError: as `is_there`, of the folder and of each file; or it cannot be read.
    """
    if not _kind_at(folder, stat.S_IFDIR, "a folder"):
        return
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(ending))
    except OSError as error:
        raise _unreadable(folder, error) from error
    yield from filter(is_there, paths)


def _kind_at(path: Path, expected: int, name: str) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from error
    _refuse_foreign_link(path)
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError as error:
        raise TokenizerError(
            f"{path} is a link to {_target(path)}, where nothing is. Fetch the checkpoint's "
            "tokenizer files again."
        ) from error
    except OSError as error:  # a link to itself, say
        raise _unreadable(path, error) from error
    if kind != expected:
        raise TokenizerError(
            f"{path} is {KINDS.get(kind, 'something else')}, expected {name}. Remove it, or fetch "
            "the checkpoint's tokenizer files again."
        )
    return True


def _refuse_foreign_link(path: Path) -> None:
    """In a snapshot of the Hub's cache, links lead into the repository's own part of the cache.

    One that leads elsewhere came with an archive or was put there. In any other folder links are
    its owner's, and are followed.
    """
    folder = path.parent.resolve()
    snapshot = next(
        (one for one in (folder, folder.parent) if one.parent.name == "snapshots"), None
    )
    if snapshot is None:
        return
    repository = snapshot.parent.parent
    # blobs may itself be a link, by which an owner keeps large files on another disk.
    homes = (repository, (repository / "blobs").resolve())
    target = _target(path)
    if not any(target.is_relative_to(home) for home in homes):
        raise TokenizerError(
            f"{path} is a link to {target}, expected a file of {repository}. Refused: delete "
            f"{repository} and fetch the model again."
        )


def _target(path: Path) -> Path:
    """Where a path leads at last; for links in a circle, the path itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # links in a circle are a RuntimeError before 3.13
        return path


def _unreadable(path: Path, error: OSError) -> TokenizerError:
    return TokenizerError(
        f"{path} cannot be read ({error.strerror}). Fetch the checkpoint's files again."
    )
