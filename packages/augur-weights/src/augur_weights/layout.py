"""What a checkpoint folder is made of: which files, and which of them hold the weights."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from augur_files import FileReader
from augur_weights.errors import CheckpointError

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

# The longest index of a dense Qwen model is under 100 kB.
READER = FileReader(CheckpointError, max_bytes=8 * 2**20)
"""What reads the files of a checkpoint; tensors are read by ``safetensors_file``."""

# Of a file's name, as Linux, macOS and Windows agree.
_MAX_NAME_BYTES = 255


def read_index(path: Path) -> dict[str, str]:
    """Read the index of a sharded checkpoint.

    Returns:
        The weight map: tensor name -> name of the safetensors file beside the index that holds it.

    Raises:
        CheckpointError: the index is not one, or an entry names anything but a safetensors file
            that lies beside it.
    """
    weight_map = READER.json_object(path).get("weight_map")
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
    if READER.is_file(folder / CONFIG_NAME):
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
    if READER.is_file(folder / INDEX_NAME):
        weight_map = read_index(folder / INDEX_NAME)
        missing = sorted({s for s in weight_map.values() if not READER.is_file(folder / s)})
        if missing:
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise CheckpointError(
                f"{folder / missing[0]}: this file{others} is missing, but {INDEX_NAME} names it "
                "as holding tensors. Fetch the missing files into the folder."
            )
        return weight_map
    if not READER.is_file(folder / WEIGHTS_NAME):
        raise CheckpointError(f"{folder}: {_why_no_weights(folder)}")
    return None


def is_adapter(names: Iterable[str]) -> bool:
    """Whether files of these names were written by PEFT."""
    return any(name.startswith(("adapter_config.", "adapter_model.")) for name in names)


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
