"""Which name leads where, and what is said of a name that leads nowhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from augur_weights import DEFAULT_MODEL, CheckpointError, SourceError, resolve

# resolve itself is a function, and the package exports it under its module's name.
MODULE = "augur_weights.resolve"


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Stand-ins for the embedded model, the GGUF import and the Hub that note who knocked."""
    import importlib

    module = importlib.import_module(MODULE)
    knocks: list[tuple[Any, ...]] = []

    def door(name: str) -> Callable[..., Path]:
        def knock(*given: Any, **options: Any) -> Path:
            knocks.append((name, *given, options))
            return tmp_path / name

        return knock

    monkeypatch.setattr(module, "embedded_checkpoint", door("embedded"))
    monkeypatch.setattr(module, "import_gguf", door("gguf"))
    monkeypatch.setattr("augur_weights.hub.hub_checkpoint", door("hub"))
    monkeypatch.chdir(tmp_path)
    return knocks


@pytest.mark.parametrize("source", [None, DEFAULT_MODEL])
def test_no_name_and_the_default_name_lead_to_the_embedded_model(
    source: str | None, doors: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    def progress(stage: str, done: int, total: int) -> None: ...

    assert resolve(source, cache_dir=tmp_path, progress=progress) == tmp_path / "embedded"
    assert doors == [("embedded", {"cache_dir": tmp_path, "progress": progress})]


@pytest.mark.parametrize("name", ["model.gguf", "MODEL.GGUF"])
def test_a_gguf_file_is_imported(name: str, doors: list[tuple[Any, ...]], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"GGUF")
    assert resolve(name, cache_dir=tmp_path, check_config=print) == tmp_path / "gguf"
    options = {"cache_dir": tmp_path, "progress": None, "check_config": print}
    assert doors == [("gguf", Path(name), options)]


@pytest.mark.parametrize(
    ("source", "repo_id", "revision"),
    [
        ("org/name", "org/name", None),
        ("name", "name", None),
        ("org/name@v1.0", "org/name", "v1.0"),
        ("org/name@refs/pr/1", "org/name", "refs/pr/1"),
    ],
)
def test_what_is_not_here_and_looks_like_a_hub_name_goes_to_the_hub(
    source: str, repo_id: str, revision: str | None, doors: list[tuple[Any, ...]]
) -> None:
    resolve(source)
    assert doors == [("hub", repo_id, revision, {"cache_dir": None, "check_config": None})]


@pytest.mark.parametrize("source", ["org/name", "org/name@v1", "./org/name"])
def test_a_folder_wins_over_a_hub_model_of_the_same_name(
    source: str,
    doors: list[tuple[Any, ...]],
    tmp_path: Path,
    tensors: dict[str, torch.Tensor],
    write_checkpoint: Callable[..., Path],
) -> None:
    written = write_checkpoint(tensors)
    (tmp_path / "org").mkdir()
    written.rename(tmp_path / source)
    assert resolve(source) == Path(source)
    assert resolve(Path(source)) == Path(source)
    assert doors == []


def test_a_folder_in_the_home_directory_is_found(
    tensors: dict[str, torch.Tensor],
    write_checkpoint: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = write_checkpoint(tensors)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert resolve(f"~/{written.name}") == written


@pytest.mark.parametrize(
    "source",
    ["./model", "../model", "/no/such/model", "~/no such model", "a/b/c", "dir\\model", ".hidden"],
)
def test_a_path_that_is_not_there_is_not_looked_for_on_the_hub(
    source: str, doors: list[tuple[Any, ...]]
) -> None:
    with pytest.raises(SourceError, match="there is no such folder"):
        resolve(source)
    assert doors == []


def test_a_path_object_is_never_a_hub_name(doors: list[tuple[Any, ...]]) -> None:
    with pytest.raises(SourceError, match="org/name: there is no such folder"):
        resolve(Path("org/name"))
    assert doors == []


def test_a_gguf_file_that_is_not_there_is_named(doors: list[tuple[Any, ...]]) -> None:
    with pytest.raises(SourceError, match=r"nowhere/model\.gguf: there is no such file"):
        resolve("nowhere/model.gguf")
    assert doors == []


def test_a_file_that_is_no_gguf_is_refused(doors: list[tuple[Any, ...]], tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(SourceError, match=r"model\.safetensors is a file.*give its folder"):
        resolve("model.safetensors")
    assert doors == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [("", "empty"), ("org/name@", "no revision"), (5, "is 5, expected its name")],
)
def test_half_a_name_is_refused(source: Any, reason: str, doors: list[tuple[Any, ...]]) -> None:
    with pytest.raises(SourceError, match=reason):
        resolve(source)
    assert doors == []


def test_a_folder_without_a_config_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        resolve(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth", "model.pt"])
def test_a_folder_of_pickles_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match=f"{name}.*refused.*save_pretrained"):
        resolve(tmp_path)


def test_a_folder_with_a_gguf_file_says_to_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model.gguf").touch()
    with pytest.raises(CheckpointError, match=r"give the path of the file itself, model\.gguf"):
        resolve(tmp_path)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("consolidated.safetensors", r"holds config\.json, consolidated\.safetensors\."),
        (None, r"holds config\.json\."),
    ],
)
def test_a_folder_without_the_weights_says_what_it_found(
    tmp_path: Path, name: str | None, found: str
) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    if name is not None:
        (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match=found):
        resolve(tmp_path)
