"""A model's config without its weights: which bytes are fetched, and which names are refused."""

import importlib
import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from augur_weights import DEFAULT_MODEL, CheckpointError, SourceError, resolve, resolve_config

CONFIG = {"model_type": "tiny"}


def test_of_a_hub_model_the_config_alone_is_fetched_and_once(
    hub: Any, repository_files: dict[str, bytes]
) -> None:
    hub.add("org/name", repository_files)
    assert resolve_config("org/name") == CONFIG
    assert hub.downloaded() == ["config.json"]
    assert resolve_config("org/name") == CONFIG
    assert hub.downloaded() == ["config.json"]
    hub.stop()
    assert resolve_config("org/name") == CONFIG


def test_what_it_leaves_in_the_cache_does_not_pass_for_a_checkpoint(
    hub: Any, repository_files: dict[str, bytes], needed_files: list[str]
) -> None:
    hub.add("org/name", repository_files)
    resolve_config("org/name")
    folder = resolve("org/name")
    assert all((folder / name).is_file() for name in needed_files)
    assert resolve_config("org/name") == CONFIG
    assert hub.downloaded() == needed_files, "a file was fetched twice"


def test_the_revision_is_the_one_asked_for(hub: Any) -> None:
    hub.add("org/name", {"config.json": b'{"a": 1}'}, refs=("main", "old"))
    hub.add("org/name", {"config.json": b'{"a": 2}'})
    assert (resolve_config("org/name@old"), resolve_config("org/name")) == ({"a": 1}, {"a": 2})


def test_a_repository_without_a_config_and_one_that_is_not_there_are_named(hub: Any) -> None:
    hub.add("org/pictures", {"README.md": b"# Pictures"})
    with pytest.raises(SourceError, match=r"org/pictures.*the repository has no config\.json"):
        resolve_config("org/pictures")
    with pytest.raises(SourceError, match=r"org/nowhere.*no such repository"):
        resolve_config("org/nowhere")
    hub.stop()
    with pytest.raises(SourceError, match=r"org/unseen.*could not be reached"):
        resolve_config("org/unseen")


def test_a_folder_need_hold_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    assert resolve_config(tmp_path) == resolve_config(str(tmp_path)) == CONFIG


@pytest.mark.parametrize("text", [None, "[]", "{"])
def test_a_folder_without_a_readable_config_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        resolve_config(tmp_path)


def test_a_folder_of_an_adapter_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").touch()
    with pytest.raises(CheckpointError, match="holds an adapter"):
        resolve_config(tmp_path)


@pytest.mark.parametrize("source", ["", "./nowhere", "nowhere.gguf", "org/name@"])
def test_a_name_that_leads_nowhere_is_refused_as_by_resolve(source: str) -> None:
    with pytest.raises(SourceError) as refusal:
        resolve_config(source)
    with pytest.raises(SourceError) as expected:
        resolve(source)
    assert str(refusal.value) == str(expected.value)


@pytest.mark.parametrize("source", [None, DEFAULT_MODEL])
def test_the_default_is_what_its_import_says(
    source: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    module = importlib.import_module("augur_weights.resolve")
    monkeypatch.setattr(module, "embedded_checkpoint", lambda **_: tmp_path)
    assert resolve_config(source) == CONFIG


@pytest.mark.parametrize("tied", [True, False])
def test_of_a_gguf_file_it_is_the_config_of_its_import_and_nothing_is_written(
    tied: bool, tmp_path: Path
) -> None:
    pytest.importorskip("gguf", reason="the gguf extra is not installed")
    tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))
    model = tiny.tiny_model()
    if not tied:
        model.tensors["output.weight"] = tiny.tiny_model(seed=1).tensors["token_embd.weight"]
    path = model.write(tmp_path / "model.gguf")
    config = resolve_config(path, cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    assert config["tie_word_embeddings"] is tied
    folder = resolve(path, cache_dir=tmp_path / "cache")
    assert config == tiny.read_json(folder, "config.json")
