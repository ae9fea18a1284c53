"""Killed at any moment, an import or a download leaves nothing that is taken for whole.

`AUGUR_KILLS` sets how many kills there are of each (3 if not set), spread over the whole run.
"""

import hashlib
import os
import queue
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import package_modules
from augur_weights import Checkpoint, import_gguf
from separate_process import TIMEOUT_S, SeparateProcess, download, import_in_steps

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs a signal that cannot be caught"),
    pytest.mark.gate,
]

KILLS = int(os.environ.get("AUGUR_KILLS", "3"))
PAUSE_S = 0.001
FINAL_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # a blob is called by its digest
hub_stand_in = package_modules.load("hub_stand_in")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).digest() for path in sorted(folder.iterdir())
    }


def kill_moments(num_steps: int, tail_s: float) -> Iterator[tuple[int, float]]:
    """After which step, and how many seconds later: spread over all steps and the time behind."""
    rng = random.Random(0)
    for number in range(KILLS - 1):
        step = int((number + rng.random()) / max(KILLS - 1, 1) * num_steps)
        yield step, rng.uniform(0, 2 * PAUSE_S)
    yield num_steps, rng.uniform(0, tail_s)


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 30 MB in bfloat16."""
    tiny = package_modules.load("gguf_tiny")
    tiny.LAYERS = 24
    return tiny.tiny_model("F16").write(tmp_path_factory.mktemp("gguf") / "model.gguf")


@pytest.fixture(scope="module")
def whole(
    gguf_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, bytes], int, float]:
    """What an import that nobody kills comes to, its steps, and its seconds after the last one."""
    cache = tmp_path_factory.mktemp("whole")
    process = SeparateProcess(import_in_steps, gguf_file, cache, PAUSE_S)
    num_steps, last_s = 0, 0.0
    while (step := process.step()) == b".":
        num_steps, last_s = num_steps + 1, time.perf_counter()
    tail_s = time.perf_counter() - last_s
    assert process.step() is None
    return contents(Path(step.decode())), num_steps, tail_s


def visible(cache: Path) -> list[Path]:
    return sorted((cache / "imports").glob("[!.]*"))


def test_an_import_killed_at_any_moment_leaves_nothing_that_is_taken_for_whole(
    gguf_file: Path, whole: tuple[dict[str, bytes], int, float], tmp_path: Path
) -> None:
    expected, num_steps, tail_s = whole
    cache = tmp_path / "cache"
    unfinished = 0
    for last_step, delay_s in kill_moments(num_steps, tail_s):
        process = SeparateProcess(import_in_steps, gguf_file, cache, PAUSE_S)
        for _ in range(last_step):
            process.step()
        time.sleep(delay_s)
        killed = process.kill() == -signal.SIGKILL
        found = visible(cache)
        assert all(contents(folder) == expected for folder in found)
        assert found or killed
        unfinished += not found

        folder = import_gguf(gguf_file, cache_dir=cache)
        assert contents(folder) == expected
        assert [path for path in (cache / "imports").iterdir() if path.is_dir()] == [folder]
        shutil.rmtree(folder)
    assert unfinished >= KILLS - 1  # the last kill alone may come after the end


def test_of_two_imports_at_once_the_second_goes_on_when_the_first_is_killed(
    gguf_file: Path, whole: tuple[dict[str, bytes], int, float], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    first = SeparateProcess(import_in_steps, gguf_file, cache, PAUSE_S)
    for _ in range(20):
        assert first.step() == b"."
    second = SeparateProcess(import_in_steps, gguf_file, cache, 0.0)
    for _ in range(20):
        assert first.step() == b"."
    assert first.kill() == -signal.SIGKILL
    folder = Path(second.result())
    assert visible(cache) == [folder]
    assert contents(folder) == whole[0]


@pytest.fixture(scope="module")
def repository() -> dict[str, bytes]:
    from safetensors.torch import save

    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2**21, generator=generator).to(torch.bfloat16)
    return {
        "config.json": b'{"model_type": "tiny"}',
        "tokenizer.json": b'{"model": {}}' + b" " * 2**18,
        "model.safetensors": save({"a": weights}),
    }


@pytest.fixture
def hub(repository: dict[str, bytes]) -> Iterator[Any]:
    with hub_stand_in.HubStandIn() as hub:
        hub.add("org/name", repository)
        yield hub


def pieces_of(hub: Any) -> queue.Queue[str]:
    """The pieces that the stand-in sends from now on, as they are sent."""
    pieces: queue.Queue[str] = queue.Queue()

    def on_piece(name: str) -> None:
        pieces.put(name)
        time.sleep(PAUSE_S)

    hub.on_piece = on_piece
    return pieces


def is_whole(path: Path) -> bool:
    """Whether a file in the cache has the digest that its blob is named by."""
    blob = path.resolve()
    data = blob.read_bytes()
    git_sha1 = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return blob.name in (hashlib.sha256(data).hexdigest(), git_sha1)


def fetched(cache: Path, hub: Any) -> dict[str, bytes]:
    folder = Path(SeparateProcess(download, hub.url, cache).result())
    assert Checkpoint(folder).names == ("a",)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_download_killed_at_any_moment_leaves_nothing_that_is_taken_for_whole(
    hub: Any, repository: dict[str, bytes], tmp_path: Path
) -> None:
    cache = tmp_path / "hub"
    pieces = pieces_of(hub)
    assert fetched(cache, hub) == repository
    num_pieces = pieces.qsize()
    assert num_pieces > 60
    unfinished = 0
    for last_piece, delay_s in kill_moments(num_pieces, tail_s=0.05):
        shutil.rmtree(cache)
        pieces = pieces_of(hub)
        process = SeparateProcess(download, hub.url, cache)
        for _ in range(last_piece):
            pieces.get(timeout=TIMEOUT_S)
        time.sleep(delay_s)
        process.kill()
        snapshots = list(cache.glob("models--org--name/snapshots/*/*"))
        assert all(is_whole(path) for path in snapshots)
        # Others are huggingface_hub's own, such as what it was just writing: *.incomplete.
        blobs = cache.glob("models--org--name/blobs/*")
        assert all(is_whole(blob) for blob in blobs if FINAL_NAME.fullmatch(blob.name))
        unfinished += len(snapshots) < len(repository)

        hub.on_piece = None
        assert fetched(cache, hub) == repository
    assert unfinished >= KILLS - 1


def test_two_downloads_at_once_fetch_each_file_once(
    hub: Any, repository: dict[str, bytes], tmp_path: Path
) -> None:
    pieces = pieces_of(hub)
    first = SeparateProcess(download, hub.url, tmp_path / "hub")
    while pieces.get(timeout=TIMEOUT_S) != "model.safetensors":
        pass
    second = SeparateProcess(download, hub.url, tmp_path / "hub")
    folders = {first.result(), second.result()}
    assert len(folders) == 1
    folder = Path(folders.pop())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == repository
    assert hub.downloaded() == sorted(repository)
