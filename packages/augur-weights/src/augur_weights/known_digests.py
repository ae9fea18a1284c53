"""Where the digests of a checkpoint's files are known from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from augur_weights.gguf_folder import recorded_digests

_BLOB_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class KnownDigests:
    """What the files of a folder should be.

    Attributes:
        known_by: where the digests are known from, or that none are, for a person.
        digests: in hexadecimal, by the file's path in the folder, with forward slashes.
        is_complete: whether another file does not belong to the model; the import's own record is
            no file of the model.
        all_here: whether each of them has a file in the folder, if nothing was lost.
        remedy: what to do about a file that is another; ``{file}`` stands for the file to delete.
    """

    known_by: str
    digests: Mapping[str, str] = field(default_factory=dict)
    is_complete: bool = False
    all_here: bool = True
    remedy: str = "Fetch {file} again from where it came."


def known_digests(folder: Path) -> KnownDigests:
    """What the files of a folder should be; a CheckpointError if its import's record is damaged.

    For a folder in huggingface_hub's cache the Hub is asked for the digests of that commit; where
    it does not answer, the names that huggingface_hub gave to the files in the cache are their
    digests at the time of the download. For an imported folder they were recorded by the import.
    """
    snapshot = folder.resolve()
    repository = snapshot.parent.parent.name
    if snapshot.parent.name == "snapshots" and repository.startswith("models--"):
        return _of_snapshot(repository.removeprefix("models--").replace("--", "/"), snapshot)
    if recorded := recorded_digests(folder):
        remedy = f"Delete {folder} and run again: the model is imported anew."
        known_by = "recorded when the model was imported"
        return KnownDigests(known_by, recorded, is_complete=True, remedy=remedy)
    return KnownDigests("none are known for a local folder")


def _of_snapshot(repo_id: str, snapshot: Path) -> KnownDigests:
    # Here, because huggingface_hub takes half a second to import and few runs need it.
    from huggingface_hub import HfApi  # noqa: PLC0415

    remedy = "Delete {file} and run again: it is fetched anew."
    try:
        info = HfApi().model_info(repo_id, revision=snapshot.name, files_metadata=True)
    except Exception as error:  # whatever the reason, the cache may know the digests
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        names = {
            path.relative_to(snapshot).as_posix(): path.readlink().name
            for path in snapshot.rglob("*")
            if path.is_symlink()
        }
        return KnownDigests(
            "kept by the cache since the download, as the Hub did not tell "
            f"({type(error).__name__}: {reason:.200})",
            {file: name for file, name in names.items() if _BLOB_NAME.fullmatch(name)},
            remedy=remedy,
        )
    published = {
        file.rfilename: file.lfs.sha256 if file.lfs is not None else file.blob_id
        for file in info.siblings or ()
    }
    return KnownDigests(
        f"published by the Hub for commit {snapshot.name}",
        {name: digest for name, digest in published.items() if digest},
        is_complete=True,
        all_here=False,
        remedy=remedy,
    )
