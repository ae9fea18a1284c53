"""An imported checkpoint is made once, whole, whatever happens meanwhile."""

import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from augur_weights import GGUFError, gguf_import, import_gguf

pytest.importorskip("gguf", reason="the gguf extra is not installed")
tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))


def test_a_second_import_returns_the_first_ones_folder_untouched(tmp_path: Path):
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    calls = []

    def progress(stage: str, done: int, total: int) -> None:
        calls.append((stage, done, total))

    first = import_gguf(path, cache_dir=tmp_path / "cache", progress=progress)
    size = (first / "model.safetensors").stat().st_size
    assert calls[-1][0] == "import"
    assert calls[-1][1] == calls[-1][2]
    assert size - calls[-1][2] < 10_000

    calls.clear()
    assert import_gguf(path, cache_dir=tmp_path / "cache", progress=progress) == first
    assert calls == []


def test_the_final_name_is_given_to_the_whole_folder_in_one_step(tmp_path: Path):
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    during: list[tuple[str, int]] = []

    def progress(*_: object) -> None:
        folders = [p for p in (tmp_path / "cache" / "imports").iterdir() if p.is_dir()]
        during.extend((p.name, p.stat().st_ino) for p in folders)

    folder = import_gguf(path, cache_dir=tmp_path / "cache", progress=progress)

    assert set(during) == {(f".{folder.name}.partial", folder.stat().st_ino)}


def replaced(path: Path, content: bytes) -> None:
    path.with_name("new").write_bytes(content)
    path.with_name("new").replace(path)


def written_over(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.mark.parametrize("change", [replaced, written_over])
@pytest.mark.parametrize("sampled", [True, False])
def test_a_changed_file_is_imported_anew_though_size_and_time_are_the_same(
    change: Callable[[Path, bytes], None],
    sampled: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    if not sampled:  # as in a large file, of which most is not looked at
        monkeypatch.setattr(gguf_import, "_PIECE_BYTES", 1)
    first = tiny.imported(tiny.tiny_model(seed=1), tmp_path)
    path = tmp_path / "tiny.gguf"
    norm = tiny.checkpoint_tensors(first)["model.norm.weight"]
    status = path.stat()
    other = tiny.tiny_model(seed=2).write(tmp_path / "other.gguf")
    change(path, other.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)

    second = import_gguf(path, cache_dir=tmp_path / "cache")

    assert not torch.equal(tiny.checkpoint_tensors(second)["model.norm.weight"], norm)
    assert [p for p in second.parent.iterdir() if p.is_dir()] == [second]  # the old one is gone


def test_a_file_that_is_written_to_while_it_is_imported_is_refused(tmp_path: Path):
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    other = tiny.tiny_model(seed=2).write(tmp_path / "other.gguf").read_bytes()

    with pytest.raises(GGUFError, match=r"tiny\.gguf: was written to while it was read"):
        import_gguf(path, cache_dir=tmp_path / "cache", progress=lambda *_: path.write_bytes(other))

    assert [p for p in (tmp_path / "cache" / "imports").iterdir() if p.is_dir()] == []


def test_a_file_that_is_replaced_while_its_import_waits_is_not_taken_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    make_once = gguf_import.make_once

    def make_later(folder: Path, origin: str, build: Callable[[Path], None]) -> Path:
        replaced(path, tiny.tiny_model(seed=2).write(tmp_path / "other.gguf").read_bytes())
        return make_once(folder, origin, build)

    monkeypatch.setattr(gguf_import, "make_once", make_later)
    with pytest.raises(GGUFError, match=r"tiny\.gguf: was replaced while its import began"):
        import_gguf(path, cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "augur-import.json"])
def test_a_damaged_folder_is_made_anew(file: str, tmp_path: Path):
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    folder = import_gguf(path, cache_dir=tmp_path / "cache")
    whole = (folder / file).read_bytes()
    (folder / file).write_bytes(whole[: len(whole) // 2])

    assert import_gguf(path, cache_dir=tmp_path / "cache") == folder

    assert (folder / file).read_bytes() == whole
    assert [p for p in folder.parent.iterdir() if p.is_dir()] == [folder]


IN_A_PROCESS = """
import os, signal, sys, time
from pathlib import Path
from augur_weights import GGUFError, gguf_import, import_gguf

path, cache, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def progress(stage, done, total):
    if mode == "die" and done > total // 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "wait" and not (cache / "building").exists():
        (cache / "building").touch()
        time.sleep(1)

print(import_gguf(path, cache_dir=cache, progress=progress))
"""


def start_import(path: Path, cache: Path, mode: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", IN_A_PROCESS, str(path), str(cache), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")


@pytest.mark.gate
@pytest.mark.skipif(os.name != "posix", reason="needs a signal that cannot be caught")
def test_a_killed_import_leaves_nothing_in_the_way_of_the_next(tmp_path: Path):
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    cache = tmp_path / "cache"

    killed = start_import(path, cache, "die")
    killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert [p.suffix for p in (cache / "imports").iterdir() if p.is_dir()] == [".partial"]

    folder = import_gguf(path, cache_dir=cache)
    assert [p for p in (cache / "imports").iterdir() if p.is_dir()] == [folder]
    assert len(tiny.checkpoint_tensors(folder)) == 26


@pytest.mark.gate
def test_a_second_process_waits_for_the_first_one_and_builds_nothing(tmp_path: Path):
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    cache = tmp_path / "cache"
    cache.mkdir()
    built_here: list[str] = []

    other = start_import(path, cache, "wait")
    while not (cache / "building").exists():
        assert other.poll() is None, "the other process ended without building"
        time.sleep(0.01)
    assert list((cache / "imports").glob("tiny-*")) == []
    folder = import_gguf(path, cache_dir=cache, progress=lambda stage, *_: built_here.append(stage))

    output, _ = other.communicate(timeout=300)
    assert other.returncode == 0
    assert output.strip() == str(folder)
    assert built_here == []
    assert len(tiny.checkpoint_tensors(folder)) == 26
