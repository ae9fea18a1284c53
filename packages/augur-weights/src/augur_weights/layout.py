"""What a checkpoint folder is made of: which files, and which of them hold the weights."""

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from augur_weights.errors import CheckpointError
from augur_weights.strict_json import StrictJSONError, parse_json

CONFIG_NAME = "config.json"
GENERATION_CONFIG_NAME = "generation_config.json"
WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"

ADAPTER = (
    "holds an adapter (LoRA or the like) and not a model; an adapter alone cannot be run. Merge it "
    "into its base model (PEFT's merge_and_unload), save that, and name its folder."
)
"""What is said of a checkpoint that is none, because PEFT wrote it."""

# Formats that run code when they are read; a checkpoint in one of them is refused by name.
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")

# The longest index of a dense Qwen model is under 100 kB. JSON takes up to twenty times its size
# once it is parsed, so what is read is bounded here.
_MAX_JSON_BYTES = 8 * 2**20

# Of a file's name, as Linux, macOS and Windows agree.
_MAX_NAME_BYTES = 255


def is_file(path: Path) -> bool:
    """Whether there is a regular file, or a link to one; ``False`` where there is nothing.

    Raises:
        CheckpointError: something else has the file's name, or it cannot be looked at.
    """
    try:
        if path.is_file():
            return True
        found = what_is_there(path)
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be looked at: {error.strerror or error}. Check the path and the "
            "rights to its folders."
        ) from None
    if found is not None:
        raise CheckpointError(f"{path}: {found}")
    return False


def what_is_there(path: Path) -> str | None:
    """What has the name of a file without being one, and what to do about it.

    ``None`` where nothing has it.
    """
    if path.is_dir():
        return "is a folder, expected a file. Put the file in its place."
    if path.exists():  # reading from it might never end
        return "is a device, a pipe or a socket, expected a file. Put the file there."
    if path.is_symlink():
        return (
            f"is a link that leads to no file (to {path.readlink()}). Put the file in its place, "
            "or fetch it again."
        )
    return None


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file that must hold one object.

    Raises:
        CheckpointError: the file cannot be read, is larger than any such file, is not strictly JSON
            or holds something else.
    """
    text = _read_text(path)
    try:
        value = parse_json(text)
    except StrictJSONError as error:
        raise CheckpointError(f"{path}: {_why_not_json(text, error)}") from None
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path}: holds a JSON {type(value).__name__}, expected an object ({{...}}). "
            "Fetch the file again."
        )
    return value


def read_index(path: Path) -> dict[str, str]:
    """Read the index of a sharded checkpoint.

    Returns:
        The weight map: tensor name -> name of the safetensors file beside the index that holds it.

    Raises:
        CheckpointError: the index is not one, or an entry names anything but a safetensors file
            that lies beside it.
    """
    weight_map = read_json_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        found = "no" if weight_map is None else f"an empty or malformed ({weight_map!r:.40})"
        raise CheckpointError(
            f'{path}: has {found} "weight_map", expected an object that gives each tensor its '
            "file. Fetch the file again."
        )
    for tensor, shard in weight_map.items():
        if not _is_plain_safetensors_name(shard):
            raise CheckpointError(
                f'{path}: "weight_map" gives tensor "{tensor}" the file {shard!r}, expected the '
                "name of a .safetensors file in the same folder. Refused: an index may not point "
                "elsewhere, nor to another format."
            )
    return weight_map


def require_config(folder: Path) -> None:
    """Check that a folder looks like a checkpoint: it has a config.

    Raises:
        CheckpointError: it has none.
    """
    if is_file(folder / CONFIG_NAME):
        return
    if folder.is_dir() and is_adapter(_names(folder)):
        raise CheckpointError(f"{folder}: {ADAPTER}")
    raise CheckpointError(
        f"{folder}: has no {CONFIG_NAME}, so it is not a checkpoint folder. Expected "
        f"{CONFIG_NAME} and {WEIGHTS_NAME} (or {INDEX_NAME} and the files it names)."
    )


def require_weights(folder: Path) -> dict[str, str] | None:
    """Find the weights of a folder, without opening them.

    Where there is an index it is the law, whatever other files lie beside it.

    Returns:
        The index's weight map, or ``None`` where the weights are one ``model.safetensors``.

    Raises:
        CheckpointError: there are no weights in safetensors, or a shard is missing.
    """
    # A link that leads nowhere counts: what it stood for was the law.
    if os.path.lexists(folder / INDEX_NAME):
        weight_map = read_index(folder / INDEX_NAME)
        missing = sorted({s for s in weight_map.values() if not is_file(folder / s)})
        if missing:
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise CheckpointError(
                f"{folder / missing[0]}: this file{others} is missing, but {INDEX_NAME} names it "
                "as holding tensors. Fetch the missing files into the folder."
            )
        return weight_map
    if not is_file(folder / WEIGHTS_NAME):
        raise CheckpointError(f"{folder}: {_why_no_weights(folder)}")
    return None


def is_adapter(names: Iterable[str]) -> bool:
    """Whether files of these names were written by PEFT."""
    return any(name.startswith(("adapter_config.", "adapter_model.")) for name in names)


def lfs_pointer_bytes(head: bytes) -> int | None:
    """The size in bytes of the file that a Git LFS pointer stands for, -1 where it does not say.

    ``None`` where ``head``, the file's first bytes, are no pointer
    (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
    """
    if not head.startswith(b"version https://git-lfs"):
        return None
    for line in head.splitlines():
        key, _, value = line.partition(b" ")
        if key == b"size" and value.isdigit():
            return int(value)
    return -1


def _why_not_json(text: str, error: Exception) -> str:
    if lfs_pointer_bytes(text[:1024].encode()) is not None:
        return "is a Git LFS pointer, not the file itself. Fetch it with `git lfs pull`."
    if not text.strip():
        return "is empty, expected JSON. Fetch the file again."
    return f"{error}. Fetch the file again."


def _read_text(path: Path) -> str:
    try:
        is_file(path)  # a pipe would be waited for without end
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise CheckpointError(
                f"{path}: is larger than {_MAX_JSON_BYTES} bytes, as no such file of a checkpoint "
                "is. Fetch the file again."
            )
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be read: {error.strerror or error}. Check the path and the rights to "
            "it, or fetch the file again."
        ) from None
    except UnicodeDecodeError:
        raise CheckpointError(
            f"{path}: is not UTF-8 text, so it cannot be JSON. Fetch the file again."
        ) from None


def _is_plain_safetensors_name(shard: object) -> bool:
    return (
        isinstance(shard, str)
        and shard.isprintable()
        and len(shard.encode()) <= _MAX_NAME_BYTES
        and shard.endswith(".safetensors")
        and PurePosixPath(shard).name == shard
        and PureWindowsPath(shard).name == shard
    )


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise CheckpointError(
            f"{folder}: cannot be listed: {error.strerror or error}. Check the rights to it."
        ) from None


def _why_no_weights(folder: Path) -> str:
    names = _names(folder)
    if is_adapter(names):
        return ADAPTER
    expected = f"expected {WEIGHTS_NAME}, or {INDEX_NAME} and the files it names"
    pickles = [name for name in names if name.endswith(PICKLE_SUFFIXES)]
    if pickles:
        return (
            f"holds its weights only as pickle ({pickles[0]}), which can run code when it is read "
            f"and is refused; {expected}. Convert it where you trust it: load it with transformers "
            "and call save_pretrained."
        )
    ggufs = [name for name in names if name.lower().endswith(".gguf")]
    if ggufs:
        return f"has no safetensors but GGUF; {expected}. Name the file itself: {folder / ggufs[0]}"
    others = [name for name in names if name.endswith(".safetensors")]
    found = f"only {others[0]}" if others else "none"
    return f"has no weights to load: {expected}; found {found}. Fetch the weights into the folder."
