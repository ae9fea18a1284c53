"""Where the digests of a checkpoint's files are known from."""

import re
from dataclasses import dataclass
from pathlib import Path

from augur_weights.digests import Digest
from augur_weights.gguf_folder import recorded_digests

_BLOB_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class KnownDigests:
    """What the files of a folder should be.

    Attributes:
        digests: by the file's path in the folder, with forward slashes; empty where none is known.
        known_by: where they are known from, to be shown to a person.
        is_complete: whether a file that is not among them does not belong to the model; the
            import's own record is no file of the model.
        all_here: whether each of them has a file in the folder, if nothing was lost.
        remedy: what to do about a file that is another; ``{file}`` stands for the file to delete.
    """

    digests: dict[str, Digest]
    known_by: str
    is_complete: bool
    all_here: bool
    remedy: str


def known_digests(folder: Path) -> KnownDigests:
    """Find out what the files of a checkpoint folder should be.

    For a folder in huggingface_hub's cache the Hub is asked for the digests of that commit; where
    it does not answer, the names that huggingface_hub gave to the files in the cache are their
    digests at the time of the download. For an imported folder they were recorded by the import.

    Raises:
        CheckpointError: the import's record is damaged.
    """
    snapshot = folder.resolve()
    repository = snapshot.parent.parent.name
    if snapshot.parent.name == "snapshots" and repository.startswith("models--"):
        repo_id = repository.removeprefix("models--").replace("--", "/")
        return _of_snapshot(repo_id, snapshot)
    if recorded := recorded_digests(folder):
        return KnownDigests(
            {name: Digest(value) for name, value in recorded.items()},
            "recorded when the model was imported",
            is_complete=True,
            all_here=True,
            remedy=f"Delete {folder} and run again: the model is imported anew.",
        )
    return none_known("none are known for a local folder")


def none_known(why: str) -> KnownDigests:
    """What is known of files of which nothing is."""
    remedy = "Fetch {file} again from where it came."
    return KnownDigests({}, why, is_complete=False, all_here=True, remedy=remedy)


def _of_snapshot(repo_id: str, snapshot: Path) -> KnownDigests:
    # Here, because huggingface_hub takes half a second to import and few runs need it.
    from augur_weights.hub_digests import published_digests  # noqa: PLC0415

    remedy = "Delete {file} and run again: it is fetched anew."
    published, why_not = published_digests(repo_id, snapshot.name)
    if published is not None:
        known_by = f"published by the Hub for commit {snapshot.name}"
        return KnownDigests(published, known_by, is_complete=True, all_here=False, remedy=remedy)
    names = {
        path.relative_to(snapshot).as_posix(): path.readlink().name
        for path in snapshot.rglob("*")
        if path.is_symlink()
    }
    return KnownDigests(
        {file: Digest(name) for file, name in names.items() if _BLOB_NAME.fullmatch(name)},
        f"kept by the cache since the download, as the Hub did not tell ({why_not})",
        is_complete=False,
        all_here=True,
        remedy=remedy,
    )
