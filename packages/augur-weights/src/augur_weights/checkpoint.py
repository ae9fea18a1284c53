"""A checkpoint folder, opened: its configs, and its tensors by name."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from augur_weights.errors import CheckpointError
from augur_weights.layout import (
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    INDEX_NAME,
    READER,
    WEIGHTS_NAME,
    require_config,
    require_weights,
)
from augur_weights.safetensors_file import SafetensorsFile
from augur_weights.safetensors_header import TensorEntry

# Keys under which checkpoints say that their weights are quantised: the usual one, the one that
# llm-compressor wrote before it, and MLX's.
_QUANTIZATION_KEYS = ("quantization_config", "compression_config", "quantization")


class Checkpoint:
    """A checkpoint folder: configs and headers checked at once, tensors read on demand.

    Where ``model.safetensors.index.json`` lies in the folder, its ``weight_map`` is the law: files
    that it does not name do not exist, ``model.safetensors`` included, and each file that it names
    holds the tensors that the map gives it, no fewer and no more. Of a tensor that lies in two
    files, or in one that the map does not give it, engines choose differently, and one of them
    would run on wrong weights. (transformers looks at ``model.safetensors`` first; the two differ
    only on a folder that holds both.)

    No file stays open between calls, so there is nothing to close. What is read belongs together: a
    file that was written to, or whose name another took, since the folder was opened is an error.

    Attributes:
        folder: the folder as it was given.
        config: what config.json holds.
        generation_config: what generation_config.json holds; empty where there is no such file.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open a folder and check all of it but the tensors' bytes.

        Raises:
            CheckpointError: a file is missing, cut short, malformed or not where it belongs, the
                index and the files disagree, or the weights are quantised.
        """
        self.folder = Path(folder)
        before = self._states()
        require_config(self.folder)
        self.config: dict[str, Any] = READER.json_object(self.folder / CONFIG_NAME)
        _refuse_quantized(self.folder / CONFIG_NAME, self.config)
        self.generation_config: dict[str, Any] = READER.json_object_if_present(
            self.folder / GENERATION_CONFIG_NAME
        )
        weight_map = require_weights(self.folder)
        names = {WEIGHTS_NAME} if weight_map is None else set(weight_map.values())
        self._files = {name: SafetensorsFile(self.folder / name) for name in sorted(names)}
        self._entries = _entries(self.folder, self._files, weight_map)
        if self._states() != before:
            raise CheckpointError(
                f"{self.folder}: its files were changed while they were read, so they may not "
                "belong together. Wait until the folder is whole, and run again."
            )
        self._small_files = [path for path, state in before.items() if state is not None]

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors' names, sorted."""
        return tuple(sorted(self._entries))

    @property
    def files(self) -> tuple[Path, ...]:
        """The safetensors files that hold the tensors, sorted."""
        return tuple(file.path for file in self._files.values())

    @property
    def files_read(self) -> tuple[Path, ...]:
        """All files that the checkpoint is read from: configs, index and ``files``, sorted."""
        return tuple(sorted((*self._small_files, *self.files)))

    @property
    def num_parameters(self) -> int:
        """How many numbers the tensors hold; a tied matrix that is stored twice counts twice."""
        return sum(math.prod(entry.shape) for entry in self._entries.values())

    @property
    def num_bytes(self) -> int:
        """The tensors' size in bytes, in the dtypes in which they are stored."""
        return sum(entry.num_bytes for entry in self._entries.values())

    def __contains__(self, name: object) -> bool:
        """Whether there is a tensor of that name."""
        return name in self._entries

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape. Raises CheckpointError where there is no such tensor."""
        return self._entry(name).shape

    def dtype(self, name: str) -> torch.dtype:
        """The dtype a tensor is stored in. Raises CheckpointError where there is no such tensor."""
        return self._entry(name).dtype

    def file(self, name: str) -> Path:
        """The file that holds a tensor. Raises CheckpointError where there is no such tensor."""
        return self._entry(name).file

    def pieces(self, name: str) -> Iterator[torch.Tensor]:
        """Read a tensor's values in row-major order, piece by piece, each overwritten by the next.

        Yields:
            ``[n]``, at most 8 MB, on the CPU, in the dtype it is stored in.

        Raises:
            CheckpointError: there is no such tensor, or its file is no longer what it was.
        """
        return self._files[self._entry(name).file.name].pieces(name)

    def tensor(self, name: str) -> torch.Tensor:
        """Read a tensor into memory of its own, on the CPU, in the dtype and shape it is stored in.

        Raises:
            CheckpointError: as ``pieces``.
        """
        tensor = torch.empty(self.shape(name), dtype=self.dtype(name))
        done = 0
        for piece in self.pieces(name):
            tensor.view(-1)[done : done + len(piece)] = piece
            done += len(piece)
        return tensor

    def _states(self) -> dict[Path, tuple[int, ...] | None]:
        names = (CONFIG_NAME, GENERATION_CONFIG_NAME, INDEX_NAME)
        return {self.folder / name: READER.state(self.folder / name) for name in names}

    def _entry(self, name: str) -> TensorEntry:
        try:
            return self._entries[name]
        except KeyError:
            raise CheckpointError(
                f'{self.folder}: has no tensor "{name}". It has {len(self._entries)} tensors; '
                "see Checkpoint.names."
            ) from None


def _entries(
    folder: Path, files: dict[str, SafetensorsFile], weight_map: dict[str, str] | None
) -> dict[str, TensorEntry]:
    if weight_map is None:
        return files[WEIGHTS_NAME].entries
    for shard, file in files.items():
        named = {name for name, owner in weight_map.items() if owner == shard}
        if missing := sorted(named - file.entries.keys()):
            fault = f'has no tensor "{missing[0]}", but {INDEX_NAME} says that it is there'
        elif unnamed := sorted(file.entries.keys() - named):
            elsewhere = weight_map.get(unnamed[0])
            said = f"gives it the file {elsewhere}" if elsewhere else "does not name it"
            fault = f'holds tensor "{unnamed[0]}", but {INDEX_NAME} {said}'
        else:
            continue
        raise CheckpointError(
            f"{folder / shard}: {fault}. The index and the files do not belong together; fetch "
            "both again."
        )
    return {name: files[shard].entries[name] for name, shard in weight_map.items()}


def _refuse_quantized(path: Path, config: dict[str, Any]) -> None:
    for key in _QUANTIZATION_KEYS:
        settings = config.get(key)
        if settings is None:
            continue
        method = settings.get("quant_method") if isinstance(settings, dict) else None
        raise CheckpointError(
            f'{path}: "{key}" says that the weights are quantised (method: {method or "unnamed"}). '
            "Quantised safetensors are not supported; use the model's unquantised checkpoint."
        )
