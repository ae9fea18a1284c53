"""Whoever fetches a model may look at its config first, and refuse it before its weights come."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from augur_weights import resolve

CONFIG = {"model_type": "tiny"}


class NotSupportedError(Exception):
    """The caller's own."""


class Look:
    """Notes the configs that it is given, and refuses them if it should."""

    def __init__(self, *, refuse: bool = False) -> None:
        self.seen: list[dict[str, Any]] = []
        self._refuse = refuse

    def __call__(self, config: dict[str, Any]) -> None:
        self.seen.append(config)
        if self._refuse:
            raise NotSupportedError


def test_of_a_hub_model_that_is_refused_no_weights_are_fetched(
    hub: Any, repository_files: dict[str, bytes], needed_files: list[str]
) -> None:
    hub.add("org/name", repository_files)
    look = Look(refuse=True)
    with pytest.raises(NotSupportedError):
        resolve("org/name", check_config=look)
    assert look.seen == [CONFIG]
    assert hub.downloaded() == ["config.json"]
    # It is refused just so without a network, and taken whole where nobody refuses it.
    resolve("org/name")
    assert hub.downloaded() == needed_files, "a file was fetched twice"
    hub.stop()
    with pytest.raises(NotSupportedError):
        resolve("org/name", check_config=look)


def test_a_look_at_the_config_of_a_cached_hub_model_fetches_nothing(
    hub: Any, repository_files: dict[str, bytes]
) -> None:
    hub.add("org/name", repository_files)
    resolve("org/name")
    hub.requests.clear()
    look = Look()
    resolve("org/name", check_config=look)
    assert look.seen == [CONFIG]
    assert hub.downloaded() == []


def test_a_folder_is_refused_before_its_weights_are_looked_for(
    tensors: dict[str, torch.Tensor], write_checkpoint: Callable[..., Path]
) -> None:
    folder = write_checkpoint(tensors)
    look = Look()
    assert resolve(folder, check_config=look) == folder
    assert look.seen == [CONFIG]
    (folder / "model.safetensors").rename(folder / "model.bin")
    with pytest.raises(NotSupportedError):
        resolve(folder, check_config=Look(refuse=True))


def test_a_gguf_file_is_refused_before_it_is_imported_and_looked_at_once(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="the gguf extra is not installed")
    tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))
    path = tiny.tiny_model().write(tmp_path / "model.gguf")
    cache = tmp_path / "cache"
    with pytest.raises(NotSupportedError):
        resolve(path, cache_dir=cache, check_config=Look(refuse=True))
    assert not list(cache.rglob("config.json"))
    look = Look()
    folder = resolve(path, cache_dir=cache, check_config=look)
    assert look.seen == [json.loads((folder / "config.json").read_text(encoding="utf-8"))]
    assert resolve(path, cache_dir=cache, check_config=look) == folder
    assert len(look.seen) == 1
