"""What a checkpoint folder is made of: which files, and which of them hold the weights."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

from augur_files import FileReader
from augur_weights.errors import CheckpointError

CONFIG_NAME = "config.json"
GENERATION_CONFIG_NAME = "generation_config.json"
WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"

# Formats that run code when they are read; a checkpoint in one of them is refused by name.
_PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")

# What reads the files of a checkpoint. The longest index of a dense Qwen model is under 100 kB.
READER = FileReader(CheckpointError, max_bytes=8 * 2**20)

EXPECTED = f"Expected {CONFIG_NAME} and {WEIGHTS_NAME}, or {INDEX_NAME} and the files it names."

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
    """Check that a folder looks like a checkpoint: it has a config; else a CheckpointError."""
    if not READER.is_file(folder / CONFIG_NAME):
        raise CheckpointError(f"{folder}: has no {CONFIG_NAME}. {_why_no_checkpoint(folder)}")


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
        raise CheckpointError(f"{folder}: has no weights to load. {_why_no_checkpoint(folder)}")
    return None


def what_else(names: Sequence[str]) -> str:
    """What to say of files of which none makes a checkpoint: what they are, and what to do."""
    if any(name.startswith(("adapter_config.", "adapter_model.")) for name in names):
        return (
            "It holds an adapter (LoRA or the like) and not a model; an adapter alone cannot be "
            "run. Merge it into its base model (PEFT's merge_and_unload), and save that."
        )
    if pickles := [name for name in names if name.endswith(_PICKLE_SUFFIXES)]:
        return (
            f"It holds {pickles[0]}, a pickle, which can run code when it is read and is refused. "
            "Look for a copy of the model in safetensors, or convert it where you trust it: load "
            "it with transformers and call save_pretrained."
        )
    if ggufs := [name for name in names if name.lower().endswith(".gguf")]:
        return f"It holds GGUF: give the path of the file itself, {ggufs[0]}."
    return f"It holds {listed(names) or 'no files'}. Fetch what is missing, or choose another."


def listed(names: Sequence[object]) -> str:
    """The first names of many."""
    more = f", ... ({len(names) - 4} more)" if len(names) > 4 else ""
    return ", ".join(str(name) for name in names[:4]) + more


def _is_plain_safetensors_name(shard: object) -> bool:
    return (
        isinstance(shard, str)
        and shard.isprintable()
        and len(shard.encode()) <= _MAX_NAME_BYTES
        and shard.endswith(".safetensors")
        and PurePosixPath(shard).name == shard
        and PureWindowsPath(shard).name == shard
    )


def _why_no_checkpoint(folder: Path) -> str:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        return f"It cannot be listed: {error.strerror or error}. Check the rights to it."
    return f"{EXPECTED} {what_else(names)}"
