"""Links: the Hub cache's own and a person's are followed, one that leaves the cache is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from augur_weights import Checkpoint, CheckpointError

Tensors = dict[str, torch.Tensor]
NAMES = ("config.json", "model.safetensors")


@pytest.fixture
def elsewhere(tensors: Tensors, write_checkpoint: Callable[..., Path]) -> Path:
    return write_checkpoint(tensors, folder="elsewhere")


def snapshot_of(repository: Path, targets: dict[str, Path]) -> Path:
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    for name, target in targets.items():
        (snapshot / name).symlink_to(target)
    return snapshot


def test_links_into_the_repositorys_blobs_are_followed(
    elsewhere: Path, tmp_path: Path, tensors: Tensors
) -> None:
    repository = tmp_path / "hub" / "models--org--name"
    blobs = repository / "blobs"
    blobs.mkdir(parents=True)
    for name in NAMES:
        (elsewhere / name).rename(blobs / name)
    snapshot = snapshot_of(repository, {name: Path("../../blobs", name) for name in NAMES})
    assert Checkpoint(snapshot).names == tuple(sorted(tensors))
    # The whole repository, or its blobs alone, moved to another disk.
    blobs.rename(tmp_path / "disk")
    blobs.symlink_to(tmp_path / "disk")
    assert Checkpoint(snapshot).names == tuple(sorted(tensors))
    (tmp_path / "link").symlink_to(snapshot)
    assert Checkpoint(tmp_path / "link").names == tuple(sorted(tensors))


@pytest.mark.parametrize("strange", NAMES)
def test_a_link_out_of_a_snapshot_is_refused(elsewhere: Path, tmp_path: Path, strange: str) -> None:
    # Both would open, were they followed.
    repository = tmp_path / "hub" / "models--org--name"
    snapshot = snapshot_of(repository, {strange: elsewhere / strange})
    for name in NAMES:
        if name != strange:
            (elsewhere / name).rename(snapshot / name)
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(snapshot)
    for part in (str(snapshot / strange), str(elsewhere / strange), "Refused", str(repository)):
        assert part in str(caught.value)


def test_a_shard_that_links_out_of_a_snapshot_is_refused(
    tensors: Tensors, write_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    folder = write_checkpoint(tensors, index=True)
    snapshot = snapshot_of(tmp_path / "hub" / "models--org--name", {})
    snapshot.rmdir()
    folder.rename(snapshot)
    shard = snapshot / "model-00001-of-00001.safetensors"
    assert Checkpoint(snapshot).files == (shard,)
    shard.rename(tmp_path / "outside.safetensors")
    shard.symlink_to(tmp_path / "outside.safetensors")
    with pytest.raises(CheckpointError, match=r"model-00001-of-00001\.safetensors: is a link to"):
        Checkpoint(snapshot)


def test_links_in_a_folder_of_ones_own_are_followed(
    elsewhere: Path, tmp_path: Path, tensors: Tensors
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in NAMES:
        (folder / name).symlink_to(elsewhere / name)
    assert Checkpoint(folder).names == tuple(sorted(tensors))
