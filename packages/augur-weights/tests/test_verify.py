"""What was fetched or imported is compared, to the last byte, with what it should be."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from augur_weights import Verification, import_gguf, resolve, verify

Tensors = dict[str, torch.Tensor]


@pytest.fixture
def fetched(hub: Any, repository_files: dict[str, bytes]) -> Path:
    hub.add("org/name", repository_files)
    return resolve("org/name")


def damage(path: Path, at: int = -1) -> None:
    """Flip one bit of a file where it lies, behind any link."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.resolve().write_bytes(data)


def the_fault(verification: Verification) -> str:
    assert len(verification.faults) == 1, verification.faults
    return verification.faults[0]


def test_a_whole_model_from_the_hub_is_found_whole(fetched: Path, needed_files: list[str]) -> None:
    progress: dict[str, tuple[int, int]] = {}
    found = verify(fetched, progress=lambda stage, *counts: progress.update({stage: counts}))
    assert found.faults == ()
    assert found.known_by == f"published by the Hub for commit {fetched.name}"
    assert (found.num_files, found.num_tensors) == (len(needed_files), 3)
    total = sum((fetched / name).stat().st_size for name in needed_files)
    assert progress == {"digests": (total, total), "weights": (96, 96)}


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_flipped_bit_in_a_large_and_in_a_small_file_is_found(
    name: str, fetched: Path, hub: Any, repository_files: dict[str, bytes]
) -> None:
    damage(fetched / name)
    message = the_fault(verify(fetched))
    kind, digits = ("SHA-256", 64) if name == "model.safetensors" else ("git SHA-1", 40)
    blob = (fetched / name).resolve()
    assert message.startswith(f"{fetched / name}: is damaged: found {kind} ")
    assert f"expected {blob.name}, published by the Hub" in message
    assert len(blob.name) == digits
    assert f"Delete {blob} and run again" in message

    # What it says helps: the file is fetched anew, and that one alone.
    blob.unlink()
    hub.requests.clear()
    assert resolve("org/name") == fetched
    assert hub.downloaded() == [name]
    assert (fetched / name).read_bytes() == repository_files[name]
    assert verify(fetched).faults == ()


def test_every_damaged_file_is_named(fetched: Path) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        damage(fetched / name)
    faults = verify(fetched).faults
    assert [fault.partition(": ")[0] for fault in faults] == [
        str(fetched / name) for name in ("config.json", "model.safetensors", "tokenizer.json")
    ]


def test_a_truncated_file_is_named_once(fetched: Path) -> None:
    weights = (fetched / "model.safetensors").resolve()
    weights.write_bytes(weights.read_bytes()[:-1])
    assert "model.safetensors: is damaged" in the_fault(verify(fetched))


def test_a_file_that_the_commit_does_not_have_is_named(fetched: Path) -> None:
    (fetched / "chat_template.json").write_text("{}", encoding="utf-8")
    (fetched / ".DS_Store").touch()
    message = the_fault(verify(fetched))
    assert message.startswith(f"{fetched / 'chat_template.json'}: is no file of the model")


@pytest.mark.parametrize("offline", [True, False])
def test_without_the_hub_the_names_in_the_cache_tell(
    offline: bool, fetched: Path, hub: Any, monkeypatch: pytest.MonkeyPatch, needed_files: list[str]
) -> None:
    if offline:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    else:
        hub.stop()
        monkeypatch.setattr("time.sleep", lambda _: None)
    whole = verify(fetched)
    assert whole.faults == ()
    assert whole.num_files == len(needed_files)
    assert whole.known_by.startswith("kept by the cache since the download, as the Hub did not")
    damage(fetched / "tokenizer.json")
    assert "tokenizer.json: is damaged: found git SHA-1" in the_fault(verify(fetched))


def test_a_local_folder_has_no_digests_but_a_structure(
    tensors: Tensors, write_checkpoint: Callable[..., Path]
) -> None:
    folder = write_checkpoint(tensors)
    whole = verify(folder)
    assert (whole.num_files, whole.num_tensors, whole.faults) == (0, 3, ())
    assert whole.known_by == "none are known for a local folder"
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert "is cut short" in the_fault(verify(folder))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_not_finite_is_named_with_its_place(
    value: float, dtype: torch.dtype, tensors: Tensors, write_checkpoint: Callable[..., Path]
) -> None:
    tensors["layer.weight"] = tensors["layer.weight"].to(dtype)
    tensors["layer.weight"][2, 3] = value
    tensors["layer.weight"][3, 1] = value
    folder = write_checkpoint({"embed.weight": tensors.pop("embed.weight")}, tensors)
    message = the_fault(verify(folder))
    shard = folder / "model-00002-of-00002.safetensors"
    assert message.startswith(f'{shard}: tensor "layer.weight" has 2 values that are not finite')
    assert f"the first is {value} at [2, 3]" in message
    assert f"Fetch {shard} again" in message


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    pytest.importorskip("gguf", reason="the gguf extra is not installed")
    tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))
    path = tiny.tiny_model().write(tmp_path / "tiny.gguf")
    return import_gguf(path, cache_dir=tmp_path / "cache")


def test_an_imported_model_is_compared_with_what_was_written(imported: Path) -> None:
    whole = verify(imported)
    assert (whole.num_files, whole.num_tensors, whole.faults) == (5, 26, ())
    assert whole.known_by == "recorded when the model was imported"


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_damage_that_leaves_the_size_is_found_and_the_remedy_helps(
    name: str, imported: Path, tmp_path: Path
) -> None:
    whole = (imported / name).read_bytes()
    damage(imported / name)
    message = the_fault(verify(imported))
    assert message.startswith(f"{imported / name}: is damaged: found SHA-256")
    assert f"Delete {imported} and run again" in message

    imported.rename(tmp_path / "deleted")
    assert import_gguf(tmp_path / "tiny.gguf", cache_dir=tmp_path / "cache") == imported
    assert (imported / name).read_bytes() == whole
    assert verify(imported).faults == ()


def test_a_file_that_an_import_wrote_and_that_is_gone_is_named(imported: Path) -> None:
    (imported / "tokenizer_config.json").unlink()
    assert "tokenizer_config.json: is missing" in the_fault(verify(imported))


@pytest.mark.parametrize(
    "name", ["chat_template.jinja", "additional_chat_templates/tool_use.jinja", "merges.txt"]
)
def test_a_file_that_an_import_did_not_write_is_named(name: str, imported: Path) -> None:
    (imported / name).parent.mkdir(exist_ok=True)
    (imported / name).write_text("{{ 'Obey.' }}", encoding="utf-8")
    (imported / "notes.md").touch()
    message = the_fault(verify(imported))
    assert message.startswith(f"{imported / name}: is no file of the model")
    assert message.endswith("Delete it.")


def test_a_folder_linked_into_an_import_is_named(imported: Path, tmp_path: Path) -> None:
    templates = tmp_path / "elsewhere"
    templates.mkdir()
    (templates / "tool_use.jinja").write_text("{{ 'Obey.' }}", encoding="utf-8")
    (imported / "additional_chat_templates").symlink_to(templates)
    assert "additional_chat_templates: is a link to a folder" in the_fault(verify(imported))


@pytest.mark.parametrize("old", [False, True], ids=["present record", "record without digest"])
@pytest.mark.parametrize("at", ["model.safetensors", '"bytes"', '"files"', "importer_version"])
def test_damage_to_the_record_of_an_import_is_told_as_such(
    at: str, old: bool, imported: Path
) -> None:
    path = imported / "augur-import.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    if old:
        del record["sha256"]
    text = json.dumps(record)
    path.write_text(text, encoding="utf-8")
    assert verify(imported).faults == ()
    if old and at == "model.safetensors":
        return  # without a digest a name cannot be told from another
    place = text.index(at) + 4
    path.write_text(text[:place] + "g" + text[place + 1 :], encoding="utf-8")
    message = the_fault(verify(imported))
    assert message.startswith(f"{path}: is damaged, so what the import wrote is not known. Delete")


def test_a_record_that_is_no_json_does_not_make_an_import_a_local_folder(imported: Path) -> None:
    (imported / "augur-import.json").write_text("{", encoding="utf-8")
    assert "augur-import.json: is damaged" in the_fault(verify(imported))


@pytest.mark.parametrize("target", ["tokenizer_config.json", "gone.json"], ids=["loop", "nowhere"])
@pytest.mark.parametrize("name", ["tokenizer_config.json", "generation_config.json"])
def test_a_link_that_leads_to_no_file_is_named_once(
    name: str, target: str, tensors: Tensors, write_checkpoint: Callable[..., Path]
) -> None:
    folder = write_checkpoint(tensors)
    (folder / name).symlink_to(name if target != "gone.json" else target)
    message = the_fault(verify(folder))
    assert message.startswith(f"{folder / name}: is a link that leads to no file (to ")
    assert message.endswith("Put the file in its place, or fetch it again.")


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja", "config.json"])
def test_a_folder_in_the_place_of_a_file_is_named_once(
    name: str, tensors: Tensors, write_checkpoint: Callable[..., Path]
) -> None:
    folder = write_checkpoint(tensors)
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    message = the_fault(verify(folder))
    assert message == f"{folder / name}: is a folder, expected a file. Put the file in its place."


def test_a_loop_in_the_cache_is_named_without_the_hub(fetched: Path, hub: Any) -> None:
    hub.stop()
    (fetched / "tokenizer_config.json").unlink()
    (fetched / "tokenizer_config.json").symlink_to("tokenizer_config.json")
    message = the_fault(verify(fetched))
    assert message.startswith(f"{fetched / 'tokenizer_config.json'}: is a link that leads to no")


@pytest.mark.parametrize(
    "name", ["a\x1b[31mred\nerror: all is well", "\u202egnp.exe", "\r\x07\u2028", "x" * 1_000_000]
)
def test_a_fault_is_one_bounded_line_of_printable_text(
    name: str, tensors: Tensors, write_checkpoint: Callable[..., Path]
) -> None:
    tensors["layer.weight"][0, 0] = float("nan")
    tensors[name] = tensors.pop("layer.weight")
    message = the_fault(verify(write_checkpoint(tensors)))
    assert message.isprintable()
    assert len(message) <= 2000
    assert message.startswith("/")
    assert "no trained weight is" in message


def test_nothing_is_changed_by_looking(fetched: Path) -> None:
    damage(fetched / "model.safetensors")
    before = {path: path.read_bytes() for path in fetched.rglob("*.*")}
    verify(fetched)
    assert {path: path.read_bytes() for path in fetched.rglob("*.*")} == before


def test_the_index_of_a_damaged_folder_is_one_of_its_faults(
    tensors: Tensors, write_checkpoint: Callable[..., Path]
) -> None:
    folder = write_checkpoint(tensors)
    text = json.dumps({"weight_map": {"embed.weight": "../model.safetensors"}})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    assert "Refused: an index may not point elsewhere" in the_fault(verify(folder))
