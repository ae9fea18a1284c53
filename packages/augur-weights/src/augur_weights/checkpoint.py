"""A checkpoint folder, opened: its configs, and its tensors by name."""

import math
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from augur_weights.errors import CheckpointError
from augur_weights.layout import (
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    INDEX_NAME,
    WEIGHTS_NAME,
    read_json_object,
    require_config,
    require_weights,
)
from augur_weights.links import refuse_foreign_links
from augur_weights.safetensors_file import open_safetensors, read_header
from augur_weights.safetensors_header import TensorEntry

# Keys under which checkpoints say that their weights are quantised: the usual one, the one that
# llm-compressor wrote before it, and MLX's.
_QUANTIZATION_KEYS = ("quantization_config", "compression_config", "quantization")


class Checkpoint:
    """A checkpoint folder: configs read at once, headers checked at once, tensors read on demand.

    Where ``model.safetensors.index.json`` lies in the folder, its ``weight_map`` is the law: files
    that it does not name do not exist, ``model.safetensors`` included, and each file that it names
    holds the tensors that the map gives it, no fewer and no more. Of a tensor that lies in two
    files, or in one that the map does not give it, engines choose differently, and one of them
    would run on wrong weights. (transformers looks at ``model.safetensors`` first; the two differ
    only on a folder that holds both.)

    No file stays open between calls, so there is nothing to close.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open a folder and check all of it but the tensors' bytes.

        Raises:
            CheckpointError: a file is missing, cut short, malformed or not where it belongs, the
                index and the files disagree, or the weights are quantised.
        """
        self._folder = Path(folder)
        require_config(self._folder)
        weight_map = require_weights(self._folder)
        weights = {WEIGHTS_NAME} if weight_map is None else set(weight_map.values())
        used = (CONFIG_NAME, GENERATION_CONFIG_NAME, INDEX_NAME, *sorted(weights))
        refuse_foreign_links(self._folder, used)
        self._config = read_json_object(self._folder / CONFIG_NAME)
        _refuse_quantized(self._folder / CONFIG_NAME, self._config)
        generation_path = self._folder / GENERATION_CONFIG_NAME
        self._generation_config = (
            read_json_object(generation_path) if os.path.lexists(generation_path) else {}
        )
        self._entries = _read_entries(self._folder, weight_map)

    @property
    def folder(self) -> Path:
        """The folder as it was given."""
        return self._folder

    @property
    def config(self) -> dict[str, Any]:
        """What config.json holds."""
        return self._config

    @property
    def generation_config(self) -> dict[str, Any]:
        """What generation_config.json holds; empty where there is no such file."""
        return self._generation_config

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors' names, sorted."""
        return tuple(sorted(self._entries))

    @property
    def files(self) -> tuple[Path, ...]:
        """The safetensors files that hold the tensors, sorted."""
        return tuple(sorted({entry.file for entry in self._entries.values()}))

    @property
    def num_parameters(self) -> int:
        """How many numbers the tensors hold; a tied matrix that is stored twice counts twice."""
        return sum(math.prod(entry.shape) for entry in self._entries.values())

    @property
    def num_bytes(self) -> int:
        """The tensors' size in bytes, in the dtypes in which they are stored."""
        return sum(
            math.prod(entry.shape) * entry.dtype.itemsize for entry in self._entries.values()
        )

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

    def tensor(self, name: str) -> torch.Tensor:
        """Map a tensor from its file, on the CPU, in the dtype and shape it is stored in.

        Its bytes are read from the disk as they are touched, so the file must stay as it is while
        the tensor lives.

        Raises:
            CheckpointError: there is no such tensor, or its file is no longer what it was.
        """
        entry = self._entry(name)
        with open_safetensors(entry.file) as handle:
            try:
                tensor: torch.Tensor = handle.get_tensor(name)
                return tensor
            except SafetensorError as error:
                raise CheckpointError(
                    f'{entry.file}: tensor "{name}" cannot be read ({error}). The file has changed '
                    "since it was opened; open the checkpoint again."
                ) from None

    def _entry(self, name: str) -> TensorEntry:
        try:
            return self._entries[name]
        except KeyError:
            raise CheckpointError(
                f'{self._folder}: has no tensor "{name}". It has {len(self._entries)} tensors; '
                "see Checkpoint.names."
            ) from None


def _read_entries(folder: Path, weight_map: dict[str, str] | None) -> dict[str, TensorEntry]:
    if weight_map is None:
        return read_header(folder / WEIGHTS_NAME)
    headers = {shard: read_header(folder / shard) for shard in sorted(set(weight_map.values()))}
    for name, shard in weight_map.items():
        if name not in headers[shard]:
            raise CheckpointError(
                f'{folder / shard}: has no tensor "{name}", but {INDEX_NAME} says that it is '
                "there. The index and the files do not belong together; fetch both again."
            )
    for shard, header in headers.items():
        for name in header:
            if weight_map.get(name) != shard:
                elsewhere = weight_map.get(name)
                said = f"gives it the file {elsewhere}" if elsewhere else "does not name it"
                raise CheckpointError(
                    f'{folder / shard}: holds tensor "{name}", but {INDEX_NAME} {said}. The index '
                    "and the files do not belong together; fetch both again."
                )
    return {name: headers[shard][name] for name, shard in weight_map.items()}


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
