"""Whether a checkpoint on this machine is, to the last byte, the one it should be."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from augur_files import one_line
from augur_weights.checkpoint import Checkpoint
from augur_weights.digests import digest_like, digest_name
from augur_weights.errors import CheckpointError
from augur_weights.gguf_folder import MANIFEST_NAME
from augur_weights.known_digests import KnownDigests, known_digests
from augur_weights.layout import READER
from augur_weights.non_finite import find_non_finite
from augur_weights.progress import Progress

# Of the files that are read from a checkpoint; what else lies there does no harm.
_READ_SUFFIXES = (".json", ".safetensors", ".txt", ".jinja")


@dataclass(frozen=True)
class Verification:
    """What was checked of a checkpoint folder, and what is wrong.

    Attributes:
        known_by: where the digests are known from, or that none are.
        num_files: files whose digest was compared.
        num_tensors: tensors in which every value was looked at.
        faults: one message for each file or tensor that is wrong, with what to do about it; each
            is one line of printable text. Empty where all is well.
    """

    folder: Path
    known_by: str
    num_files: int
    num_tensors: int
    faults: tuple[str, ...]


def verify(folder: Path, *, progress: Progress | None = None) -> Verification:
    """Check every file of a checkpoint folder: its digest, its structure, and its values.

    Digests are compared where they are known: published by the Hub for a model from there, and
    recorded by the import for an imported one. For any folder the files' structure is checked, and
    every weight is looked at: a trained one is finite. Nothing is changed or deleted. Files are
    read piece by piece, so memory stays at some MB.

    ``progress`` is told the stages "digests" and "weights", in bytes.

    Raises:
        OSError: a file cannot be read.
    """
    faults = []
    try:
        known = known_digests(folder)
    except CheckpointError as error:
        faults.append(str(error))
        known = KnownDigests("none are known, because the import's record is damaged")
    here = _files(folder)
    damaged = dict(_damaged(folder, here, known, progress))
    damaged |= {n: told for n, told in _not_files(folder) if n not in damaged}
    faults.extend(damaged.values())
    num_tensors = 0
    try:
        checkpoint = Checkpoint(folder)
        num_tensors = len(checkpoint.names)
        faults.extend(_not_finite(checkpoint, known, progress))
    except CheckpointError as error:
        # A file of the wrong digest is usually malformed, too; once is enough.
        if not any(str(error).startswith(f"{folder / name}:") for name in damaged):
            faults.append(str(error))
    num_files = len(known.digests.keys() & here.keys())
    told = tuple(one_line(fault) for fault in faults)
    return Verification(folder, known.known_by, num_files, num_tensors, told)


def _damaged(
    folder: Path, here: dict[str, Path], known: KnownDigests, progress: Progress | None
) -> Iterator[tuple[str, str]]:
    """The files that are not what they should be, each with what to say about it."""
    compared = {name: known.digests[name] for name in sorted(known.digests.keys() & here.keys())}
    total = sum(here[name].stat().st_size for name in compared)
    done = 0
    for name, expected in compared.items():
        found = digest_like(expected, here[name])
        done += here[name].stat().st_size
        if progress is not None:
            progress("digests", done, total)
        if found != expected:
            fault = f"found {digest_name(found)} {found}, expected {expected}, {known.known_by}"
            remedy = known.remedy.format(file=here[name])
            yield name, f"{folder / name}: is damaged: {fault}. {remedy}"
    if known.all_here:
        for name in sorted(known.digests.keys() - here.keys()):
            yield name, f"{folder / name}: is missing. {known.remedy.format(file=folder / name)}"
    if known.is_complete:
        for name in sorted(here.keys() - known.digests.keys() - {MANIFEST_NAME}):
            if name.endswith(_READ_SUFFIXES):
                fault = f"is no file of the model: none of that name is {known.known_by}"
                yield name, f"{folder / name}: {fault}. Delete it."
        for path in sorted(folder.iterdir()):
            if path.is_symlink() and path.is_dir():  # what lies behind it is not looked through
                yield path.name, f"{path}: is a link to a folder, as no model has. Delete it."


def _not_files(folder: Path) -> Iterator[tuple[str, str]]:
    """What has the name of a file that is read and is none, so that it would be passed over."""
    for path in sorted(p for p in folder.rglob("*") if p.name.endswith(_READ_SUFFIXES)):
        try:
            READER.is_file(path)
        except CheckpointError as error:
            yield path.relative_to(folder).as_posix(), str(error)


def _files(folder: Path) -> dict[str, Path]:
    """The files in a folder by their paths in it, each as the file that its links lead to."""
    return {
        path.relative_to(folder).as_posix(): path.resolve()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _not_finite(
    checkpoint: Checkpoint, known: KnownDigests, progress: Progress | None
) -> Iterator[str]:
    done = 0
    for name in checkpoint.names:
        shape = checkpoint.shape(name)
        if found := find_non_finite(checkpoint.pieces(name), shape):
            file = checkpoint.file(name)
            yield (
                f'{file}: tensor "{name}" has {found.count} values that are not finite, the first '
                f"is {found.first_value} at {list(found.first_index)}; no trained weight is. "
                f"{known.remedy.format(file=file.resolve())}"
            )
        done += math.prod(shape) * checkpoint.dtype(name).itemsize
        if progress is not None:
            progress("weights", done, checkpoint.num_bytes)
