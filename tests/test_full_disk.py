"""A disk that is full, limited or read-only: one message that says so, and nothing left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import package_modules
from augur_weights import Checkpoint, WeightsError, import_gguf
from separate_process import SeparateProcess, download, import_with_limited_files

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="limits and mounts are POSIX's"),
    pytest.mark.gate,
]

hub_stand_in = package_modules.load("hub_stand_in")
MB = 2**20


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 2.7 MB in bfloat16."""
    tiny = package_modules.load("gguf_tiny")
    return tiny.tiny_model("F16").write(tmp_path_factory.mktemp("gguf") / "model.gguf")


@pytest.fixture
def hub() -> Iterator[Any]:
    from safetensors.torch import save

    with hub_stand_in.HubStandIn() as hub:
        weights = save({"a": torch.ones(MB, dtype=torch.bfloat16)})
        hub.add("org/name", {"config.json": b'{"a": 1}', "model.safetensors": weights})
        yield hub


def mount(target: Path, *options: str) -> None:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MB; the import asks for 35 of them before it begins."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs Linux and root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount(disk, "size=40m")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Leave no room at all."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(MB)):
                pass
        except OSError:
            return filler
    raise AssertionError("the disk has no end")


def files_in(folder: Path) -> list[str]:
    """What lies there but for locks, which stay."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in files if path.suffix != ".lock")


def test_an_import_that_outgrows_the_limit_for_files_says_so_and_leaves_nothing(
    gguf_file: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    said = SeparateProcess(import_with_limited_files, gguf_file, cache, MB).result()
    assert said.startswith(f"WeightsError: {cache / 'imports'}")
    for part in ("larger than is allowed", "ulimit -f", "set AUGUR_CACHE"):
        assert part in said
    assert files_in(cache) == []
    assert Checkpoint(import_gguf(gguf_file, cache_dir=cache)).names


def test_a_download_that_outgrows_the_limit_for_files_says_so_and_leaves_nothing(
    hub: Any, tmp_path: Path
) -> None:
    cache = tmp_path / "hub"
    said = SeparateProcess(download, hub.url, cache, MB).result()
    assert said.startswith('SourceError: Hub model "org/name" (revision "main"): it cannot be')
    for part in (str(cache), "larger than is allowed", "ulimit -f", "set HF_HOME"):
        assert part in said
    assert "network" not in said
    assert "model.safetensors" not in files_in(cache)
    assert not [name for name in files_in(cache) if name.endswith(".incomplete")]
    assert Checkpoint(Path(SeparateProcess(download, hub.url, cache).result())).names == ("a",)


def test_a_disk_that_fills_up_during_an_import_is_called_full_and_nothing_is_left(
    gguf_file: Path, small_disk: Path
) -> None:
    with pytest.raises(WeightsError) as caught:
        import_gguf(gguf_file, cache_dir=small_disk, progress=lambda *_: fill(small_disk))
    for part in (str(small_disk / "imports"), "the disk is full", "free space", "AUGUR_CACHE"):
        assert part in str(caught.value)
    assert files_in(small_disk) == ["filler"]
    (small_disk / "filler").unlink()
    assert Checkpoint(import_gguf(gguf_file, cache_dir=small_disk)).names


def test_a_disk_with_too_little_room_is_refused_before_anything_is_written(
    gguf_file: Path, small_disk: Path
) -> None:
    (small_disk / "ballast").write_bytes(bytes(20 * MB))
    with pytest.raises(WeightsError, match=r"3\d MB are needed but \d+ MB are free"):
        import_gguf(gguf_file, cache_dir=small_disk)
    assert files_in(small_disk) == ["ballast"]


def test_a_full_disk_is_told_of_a_download(hub: Any, small_disk: Path) -> None:
    filler = fill(small_disk)
    os.truncate(filler, filler.stat().st_size - MB)  # enough for the config alone
    said = SeparateProcess(download, hub.url, small_disk / "hub").result()
    for part in ("SourceError", "cannot be stored", "the disk is full", "HF_HOME"):
        assert part in said
    assert "network" not in said
    filler.unlink()
    folder = Path(SeparateProcess(download, hub.url, small_disk / "hub").result())
    assert Checkpoint(folder).names == ("a",)


def test_a_read_only_cache_serves_what_it_has_and_says_that_it_is_read_only(
    gguf_file: Path, tmp_path: Path, small_disk: Path
) -> None:
    imported = import_gguf(gguf_file, cache_dir=small_disk)
    mount_read_only(small_disk)
    assert import_gguf(gguf_file, cache_dir=small_disk) == imported
    other = tmp_path / "other.gguf"
    other.write_bytes(gguf_file.read_bytes())
    with pytest.raises(WeightsError) as caught:
        import_gguf(other, cache_dir=small_disk)
    for part in (str(small_disk), "the disk is mounted read-only", "AUGUR_CACHE"):
        assert part in str(caught.value)
    assert "free space" not in str(caught.value)


def test_a_read_only_cache_is_told_of_a_download(hub: Any, small_disk: Path) -> None:
    folder = Path(SeparateProcess(download, hub.url, small_disk / "whole").result())
    mount_read_only(small_disk)
    assert SeparateProcess(download, hub.url, small_disk / "whole").result() == str(folder)
    said = SeparateProcess(download, hub.url, small_disk / "other").result()
    for part in ("SourceError", "the disk is mounted read-only", "HF_HOME"):
        assert part in said
    assert "network" not in said


def mount_read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
