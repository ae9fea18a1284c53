"""What is loaded is one checkpoint, or nothing: a file that changes meanwhile is an error."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from augur_weights import (
    Checkpoint,
    CheckpointError,
    check_fit,
    load_into,
    loading,
    safetensors_file,
    verify,
)
from augur_weights import checkpoint as checkpoint_module

Tensors = dict[str, torch.Tensor]
Write = Callable[..., Path]
Save = Callable[[Tensors], bytes]
CHANGED = r'model\.safetensors: tensor ".*" cannot be read: the file has changed since it was'


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.device("meta"):
            # Not Embedding(7, 4): to draw its values on the meta device takes seconds.
            self.embed = torch.nn.Embedding.from_pretrained(torch.empty(7, 4))
            self.layer = torch.nn.Linear(4, 4)


def replaced(path: Path, data: bytes) -> None:
    path.with_name("new").write_bytes(data)
    path.with_name("new").replace(path)


def replaced_with_the_same_time(path: Path, data: bytes) -> None:
    status = path.stat()
    replaced(path, data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def written_over(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


CHANGES = [replaced, replaced_with_the_same_time, written_over]


@pytest.fixture
def others(tensors: Tensors) -> dict[str, Tensors]:
    """Files that might take the place of the one that is read."""
    return {
        "other values": {name: tensor + 1 for name, tensor in tensors.items()},
        "a bias that would be broadcast": tensors | {"layer.bias": tensors["layer.bias"][:1]},
        "another dtype": {name: tensor.to(torch.int8) for name, tensor in tensors.items()},
        "other names": {f"model.{name}": tensor for name, tensor in tensors.items()},
        "cut short": {},
    }


OTHERS = [
    "other values",
    "a bias that would be broadcast",
    "another dtype",
    "other names",
    "cut short",
]


class ChangedMidway(Checkpoint):
    """A checkpoint whose file is changed once the first tensor, or a piece of it, was read."""

    change: Callable[[], None] | None = None

    def pieces(self, name: str) -> Iterator[torch.Tensor]:
        for piece in super().pieces(name):
            yield piece
            if self.change is not None:
                self.change()
                self.change = None


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("piece_bytes", [8, 2**23], ids=["within a tensor", "after a tensor"])
def test_a_file_that_changes_midway_leaves_the_module_untouched(
    tensors: Tensors,
    others: dict[str, Tensors],
    write_checkpoint: Write,
    save: Save,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, bytes], None],
    other: str,
    piece_bytes: int,
) -> None:
    monkeypatch.setattr(loading, "_MAX_WORKERS", 1)
    monkeypatch.setattr(safetensors_file, "_PIECE_BYTES", piece_bytes)
    checkpoint = ChangedMidway(write_checkpoint(tensors))
    path = checkpoint.folder / "model.safetensors"
    checkpoint.change = lambda: change(path, save(others[other]))
    module = Tiny()
    with pytest.raises(CheckpointError, match=CHANGED):
        load_into(module, checkpoint)
    assert checkpoint.change is None
    assert all(parameter.is_meta for parameter in module.parameters())


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("other", OTHERS)
def test_a_file_that_changed_since_it_was_opened_is_named(
    tensors: Tensors,
    others: dict[str, Tensors],
    write_checkpoint: Write,
    save: Save,
    change: Callable[[Path, bytes], None],
    other: str,
) -> None:
    checkpoint = Checkpoint(write_checkpoint(tensors))
    change(checkpoint.files[0], save(others[other]))
    for read in (lambda: checkpoint.tensor("layer.bias"), lambda: load_into(Tiny(), checkpoint)):
        with pytest.raises(CheckpointError, match=CHANGED):
            read()


def test_a_file_that_is_gone_is_named(tensors: Tensors, write_checkpoint: Write) -> None:
    checkpoint = Checkpoint(write_checkpoint(tensors))
    checkpoint.files[0].unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: there is no such file"):
        load_into(Tiny(), checkpoint)


def test_of_tied_weights_both_are_of_the_file_that_was_opened(
    tensors: Tensors, write_checkpoint: Write, save: Save
) -> None:
    module = Tiny()
    module.head = torch.nn.Linear(4, 7, bias=False, device="meta")
    module.head.weight = module.embed.weight
    tensors["head.weight"] = tensors["embed.weight"]
    checkpoint = Checkpoint(write_checkpoint(tensors))
    check_fit(module, checkpoint, compare_tied=True)
    replaced(checkpoint.files[0], save(tensors))
    with pytest.raises(CheckpointError, match=CHANGED):
        check_fit(module, checkpoint, compare_tied=True)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_a_config_that_changes_while_the_weights_are_looked_at_is_not_mixed_with_them(
    tensors: Tensors, write_checkpoint: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = write_checkpoint(tensors)

    def open_meanwhile(path: Path) -> object:
        replaced(folder / name, b'{"model_type": "other"}')
        return safetensors_file.SafetensorsFile(path)

    monkeypatch.setattr(checkpoint_module, "SafetensorsFile", open_meanwhile)
    with pytest.raises(CheckpointError, match="its files were changed while they were read"):
        Checkpoint(folder)


def test_a_change_is_told_by_verify(tensors: Tensors, write_checkpoint: Write, save: Save) -> None:
    folder = write_checkpoint(tensors)
    path = folder / "model.safetensors"

    def change(_stage: str, done: int, total: int) -> None:
        if done < total:
            replaced(path, save(tensors))

    (fault,) = verify(folder, progress=change).faults
    assert "has changed since it was opened" in fault
