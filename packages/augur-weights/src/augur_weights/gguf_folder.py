"""A folder in the cache that is made once and is whole or not there at all."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from augur_files import parse_json
from augur_weights.digests import file_sha256
from augur_weights.disk_errors import disk_reason
from augur_weights.errors import CheckpointError, WeightsError

# Raised when the same file would be imported differently, so that older folders are made anew.
# Version 2 records the files' digests.
_IMPORTER_VERSION = 2
MANIFEST_NAME = "augur-import.json"

_SHA256 = re.compile("[0-9a-f]{64}")


def make_once(folder: Path, origin: str, build: Callable[[Path], None]) -> Path:
    """Return ``folder``, after ``build`` has filled it if it was not there whole.

    The work happens in a hidden folder beside it that gets its name in one step at the end; what a
    killed process leaves there, the next call removes. Of several processes one builds.

    Args:
        folder: where the result lies.
        origin: says what it is made from; a folder made from something else is made anew.
        build: fills an empty folder.

    Raises:
        WeightsError: the cache cannot be written; and whatever ``build`` raises.
    """
    if _is_whole(folder, origin):
        return folder
    # Here, because it takes half a second to import and few runs need it.
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]  # noqa: PLC0415

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(folder.parent / f".{folder.name}.lock"):
            # Another process may have made it while this one waited.
            if not _is_whole(folder, origin):
                _make(folder, origin, build)
    except OSError as error:
        reason = disk_reason(folder, error, "AUGUR_CACHE")
        raise WeightsError(f"{folder}: cannot be written: {reason}") from error
    return folder


def recorded_digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of an imported folder as it was written; empty for other folders.

    Raises:
        CheckpointError: the folder's record is damaged.
    """
    path = folder / MANIFEST_NAME
    if not os.path.lexists(path):
        return {}
    manifest = _read_manifest(folder)
    if manifest is None:
        raise CheckpointError(
            f"{path}: is damaged, so what the import wrote is not known. Delete {folder} and name "
            "what it was imported from: the model is imported anew."
        )
    return {name: file["sha256"] for name, file in manifest["files"].items()}


def check_space(folder: Path, num_bytes: int) -> None:
    """Refuse to begin what cannot end. Raises WeightsError where fewer bytes are free."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise WeightsError(
            f"{folder.parent}: {num_bytes / 1e6:,.0f} MB are needed but {free / 1e6:,.0f} MB are "
            "free; free space there or set AUGUR_CACHE to another folder"
        )


def _make(folder: Path, origin: str, build: Callable[[Path], None]) -> None:
    # The names are fixed: whoever holds the lock is the only one to use them.
    building, damaged = (
        folder.with_name(f".{folder.name}.{state}") for state in ("partial", "damaged")
    )
    try:
        for left_over in (building, damaged):
            shutil.rmtree(left_over, ignore_errors=True)
        building.mkdir()
        build(building)
        _write_manifest(building, origin)
        # On the disk before they get their name, lest a power cut leave a whole looking folder.
        for file in building.iterdir():
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())
        if folder.exists():
            folder.rename(damaged)
        building.rename(folder)
    finally:
        for left_over in (building, damaged):
            shutil.rmtree(left_over, ignore_errors=True)


def _is_whole(folder: Path, origin: str) -> bool:
    """Whether every file is there with its size; a look at the digests would take too long."""
    manifest = _read_manifest(folder)
    try:
        return (
            manifest is not None
            and manifest["importer_version"] == _IMPORTER_VERSION
            and manifest["origin"] == origin
            and all(
                (folder / name).stat().st_size == file["bytes"]
                for name, file in manifest["files"].items()
            )
        )
    except OSError:
        return False


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    """The record of an import; ``None`` where there is none, or it is not what was written."""
    try:
        manifest = parse_json((folder / MANIFEST_NAME).read_text(encoding="utf-8"))
        # Older records have no digest of their own.
        digest = manifest.pop("sha256", None)
        whole = (
            manifest.keys() == {"importer_version", "origin", "files"}
            and all(file.keys() == {"bytes", "sha256"} for file in manifest["files"].values())
            and all(_SHA256.fullmatch(file["sha256"]) for file in manifest["files"].values())
            and digest in (None, _digest_of(manifest))
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return manifest if whole else None


def _write_manifest(folder: Path, origin: str) -> None:
    manifest: dict[str, Any] = {
        "importer_version": _IMPORTER_VERSION,
        "origin": origin,
        "files": {
            file.name: {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
            for file in sorted(folder.iterdir())
        },
    }
    manifest["sha256"] = _digest_of(manifest)
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _digest_of(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
