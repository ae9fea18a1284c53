"""Fetching from the Hub, against a stand-in of its HTTP interface."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch

from augur_weights import Checkpoint, CheckpointError, SourceError, resolve
from augur_weights.hub_errors import _file_asked_for

Save = Callable[[dict[str, torch.Tensor]], bytes]


def failure(source: str) -> str:
    with pytest.raises(SourceError) as caught:
        resolve(source)
    message = str(caught.value)
    assert "Traceback" not in message
    assert "\n" not in message
    return message


def test_a_fresh_download_asks_for_the_needed_files_alone_and_once(
    hub: Any,
    repository_files: dict[str, bytes],
    needed_files: list[str],
    tensors: dict[str, torch.Tensor],
) -> None:
    hub.add("org/name", repository_files)
    folder = resolve("org/name")
    assert hub.downloaded() == needed_files
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.*")) == needed_files
    asked = {request.file for request in hub.requests if request.file}
    assert asked == set(needed_files)
    checkpoint = Checkpoint(folder)
    assert checkpoint.generation_config == {"eos_token_id": [1, 2]}
    for name, tensor in tensors.items():
        assert torch.equal(checkpoint.tensor(name), tensor)


def test_a_second_run_downloads_nothing(hub: Any, repository_files: dict[str, bytes]) -> None:
    hub.add("org/name", repository_files)
    first = resolve("org/name")
    hub.requests.clear()
    assert resolve("org/name") == first
    assert [request for request in hub.requests if request.file] == []


def sharded(files: dict[str, bytes], tensors: dict[str, torch.Tensor], save: Save) -> list[str]:
    """Add an index and two shards to a repository's files, and return the shards' names."""
    shards = {
        "model-00001-of-00002.safetensors": {"embed.weight": tensors["embed.weight"]},
        "model-00002-of-00002.safetensors": {"layer.bias": tensors["layer.bias"]},
    }
    weight_map = {name: file for file, shard in shards.items() for name in shard}
    files["model.safetensors.index.json"] = json.dumps({"weight_map": weight_map}).encode()
    files |= {file: save(shard) for file, shard in shards.items()}
    return list(shards)


def test_only_the_shards_that_the_index_names_are_fetched(
    hub: Any,
    repository_files: dict[str, bytes],
    tensors: dict[str, torch.Tensor],
    save: Save,
) -> None:
    shards = sharded(repository_files, tensors, save)
    hub.add("org/sharded", repository_files)
    folder = resolve("org/sharded")
    assert [name for name in hub.downloaded() if name.endswith(".safetensors")] == shards
    assert Checkpoint(folder).names == ("embed.weight", "layer.bias")


def test_an_index_cannot_widen_what_is_fetched(
    hub: Any, repository_files: dict[str, bytes]
) -> None:
    # A name that would match every file, if it were taken for a pattern.
    index = json.dumps({"weight_map": {"a": "[a-z]*.safetensors"}}).encode()
    hub.add("org/greedy", repository_files | {"model.safetensors.index.json": index})
    assert "[a-z]*.safetensors" in failure("org/greedy")
    assert not [name for name in hub.downloaded() if name.endswith(".safetensors")]


def test_an_index_that_names_a_pickle_is_refused_before_it_is_fetched(
    hub: Any, repository_files: dict[str, bytes]
) -> None:
    index = json.dumps({"weight_map": {"a": "pytorch_model.bin"}}).encode()
    hub.add("org/pickle", repository_files | {"model.safetensors.index.json": index})
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin"):
        resolve("org/pickle")
    assert "pytorch_model.bin" not in hub.downloaded()


def test_a_revision_can_be_a_tag_or_a_commit(hub: Any, repository_files: dict[str, bytes]) -> None:
    old = hub.add("org/name", repository_files | {"config.json": b'{"age": "old"}'}, refs=("v1",))
    new = hub.add("org/name", repository_files | {"config.json": b'{"age": "new"}'})
    assert Checkpoint(resolve("org/name@v1")).config == {"age": "old"}
    assert Checkpoint(resolve(f"org/name@{old}")).config == {"age": "old"}
    assert Checkpoint(resolve("org/name")).config == {"age": "new"}
    assert resolve(f"org/name@{new}") == resolve("org/name@main")


def test_a_revision_may_hold_slashes(hub: Any, repository_files: dict[str, bytes]) -> None:
    commit = hub.add("org/name", repository_files, refs=("refs/pr/1",))
    assert resolve("org/name@refs/pr/1").name == commit


def test_both_steps_of_a_download_see_the_same_commit(
    hub: Any, repository_files: dict[str, bytes]
) -> None:
    commit = hub.add("org/name", repository_files)
    resolve("org/name")
    api = [r.path for r in hub.requests if r.path.startswith("/api/models/org/name/")]
    assert api[0] == "/api/models/org/name/revision/main"
    assert all(path.endswith(f"/{commit}") for path in api[1:])
    assert all(f"/resolve/{commit}/" in r.path for r in hub.requests if "/resolve/" in r.path)


def test_a_cache_folder_of_ones_own_is_used(
    hub: Any, repository_files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.add("org/name", repository_files)
    folder = resolve("org/name", cache_dir=tmp_path / "mine")
    assert folder.is_relative_to(tmp_path / "mine")
    assert not (tmp_path / "hub").exists()


def test_a_download_cut_off_midway_goes_on_where_it_stopped(
    hub: Any, repository_files: dict[str, bytes], save: Save
) -> None:
    # huggingface_hub keeps what came in whole chunks, so the cut comes after the first.
    chunk = huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE
    weights = save({"a": torch.arange(chunk // 2 + 5000, dtype=torch.int16)})
    hub.add("org/name", repository_files | {"model.safetensors": weights})
    hub.cut_after["model.safetensors"] = chunk + 1000
    try:
        folder = resolve("org/name")
    except SourceError:  # huggingface_hub 1 leaves it to the next run to go on, 2 does so at once
        folder = resolve("org/name")
    assert (folder / "model.safetensors").read_bytes() == weights
    gets = [r for r in hub.requests if r.method == "GET" and r.file == "model.safetensors"]
    assert [request.range for request in gets] == [None, f"bytes={chunk}-"]


def test_a_run_after_a_failed_one_fetches_only_what_is_missing(
    hub: Any,
    repository_files: dict[str, bytes],
    tensors: dict[str, torch.Tensor],
    save: Save,
) -> None:
    first, second = sharded(repository_files, tensors, save)
    hub.add("org/sharded", repository_files)
    hub.broken_files = {second}
    message = failure("org/sharded")
    for part in ('"org/sharded"', f'"{second}" did not arrive', "status 503", "Run again"):
        assert part in message
    assert "HF_ENDPOINT" not in message  # it is one file, not the Hub, that is not to be had
    assert first in hub.downloaded()
    hub.broken_files = set()
    hub.requests.clear()
    assert len(Checkpoint(resolve("org/sharded")).files) == 2
    assert hub.downloaded() == [second]


def test_a_token_opens_a_private_repository_and_goes_nowhere_else(
    hub: Any, repository_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/private", repository_files, token="hf_secret")
    assert "hf auth login" in failure("org/private")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert resolve("org/private").is_dir()
    elsewhere = [r.authorization for r in hub.requests if r.path.startswith("/large/")]
    assert elsewhere == [None]


def test_with_the_hub_gone_the_cache_serves(hub: Any, repository_files: dict[str, bytes]) -> None:
    hub.add("org/name", repository_files)
    first = resolve("org/name")
    hub.stop()
    assert resolve("org/name") == first


def test_with_the_hub_broken_the_cache_serves(hub: Any, repository_files: dict[str, bytes]) -> None:
    hub.add("org/name", repository_files)
    first = resolve("org/name")
    hub.broken_status = 503
    assert resolve("org/name") == first


def test_a_cache_that_is_not_whole_does_not_serve_and_says_what_is_missing(
    hub: Any, repository_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/name", repository_files)
    folder = resolve("org/name")
    (folder / "model.safetensors").unlink()
    hub.stop()
    monkeypatch.setattr("time.sleep", lambda _: None)  # huggingface_hub waits between its tries
    message = failure("org/name")
    for part in ("org/name", "model.safetensors", str(folder), hub.url, "Check the network"):
        assert part in message


@pytest.fixture
def older_files(repository_files: dict[str, bytes]) -> dict[str, bytes]:
    """The same model as older libraries wrote it: no tokenizer.json, the ids in files of theirs."""
    del repository_files["tokenizer.json"]
    return repository_files | {"tokenizer_config.json": b'{"eos_token": null}'}


def test_older_files_of_a_tokenizer_are_fetched_where_the_newer_leave_something_open(
    hub: Any, older_files: dict[str, bytes], needed_files: list[str]
) -> None:
    hub.add("org/older", older_files)
    resolve("org/older")
    older = ["added_tokens.json", "merges.txt", "special_tokens_map.json", "vocab.json"]
    assert hub.downloaded() == sorted({*needed_files, *older} - {"tokenizer.json"})


@pytest.mark.parametrize("older", [False, True])
def test_offline_a_cache_that_holds_what_is_read_serves(
    hub: Any,
    repository_files: dict[str, bytes],
    older_files: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    older: bool,
) -> None:
    # The cache knows of files that it lacks and that nobody reads, vocab.json among them.
    files = older_files if older else repository_files | {"tokenizer.json": b"{}"}
    hub.add("org/name", files)
    first = resolve("org/name")
    assert (first / "vocab.json").exists() == older
    assert not (first / "README.md").exists()
    hub.requests.clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert resolve("org/name") == first
    assert hub.requests == []


@pytest.mark.parametrize(
    ("older", "name"),
    [
        (False, "tokenizer.json"),
        (False, "generation_config.json"),
        (False, "additional_chat_templates/tool_use.jinja"),
        (True, "merges.txt"),
        (True, "added_tokens.json"),
    ],
)
def test_offline_a_cache_without_a_file_that_is_read_is_refused(
    hub: Any,
    repository_files: dict[str, bytes],
    older_files: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    older: bool,
    name: str,
) -> None:
    hub.add("org/name", older_files if older else repository_files | {"tokenizer.json": b"{}"})
    (resolve("org/name") / name).unlink()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = failure("org/name")
    for part in ("HF_HUB_OFFLINE is set", name, "is not whole"):
        assert part in message


def test_a_missing_repository_is_named(hub: Any) -> None:
    message = failure("org/nmae")
    for part in ('"org/nmae"', 'revision "main"', hub.url, "spelling", "hf auth login"):
        assert part in message


def test_a_missing_revision_is_named(hub: Any, repository_files: dict[str, bytes]) -> None:
    hub.add("org/name", repository_files)
    message = failure("org/name@v2")
    for part in ('"org/name"', '"v2"', "no such revision", "branch, a tag or a whole commit"):
        assert part in message


def test_a_missing_commit_is_named(hub: Any, repository_files: dict[str, bytes]) -> None:
    hub.add("org/name", repository_files)
    assert "no such revision" in failure(f"org/name@{'0' * 40}")


def test_a_gated_repository_says_where_to_ask(hub: Any, repository_files: dict[str, bytes]) -> None:
    hub.add("org/gated", repository_files, gated=True)
    message = failure("org/gated")
    for part in ("org/gated", "restricted", f"{hub.url}/org/gated", "hf auth login"):
        assert part in message


def test_a_small_file_that_the_hub_does_not_give_is_named(
    hub: Any, repository_files: dict[str, bytes]
) -> None:
    hub.add("org/name", repository_files)
    hub.broken_files = {"tokenizer.json"}
    message = failure("org/name")
    assert '"tokenizer.json" did not arrive' in message
    assert "status 503" in message


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("https://hub/org/name/resolve/0123/model.safetensors", "model.safetensors"),
        ("https://hub/org/name/resolve/0123/a%20b/c.json?download=true", "a b/c.json"),
        (
            "https://cdn/xet/17ab/4d7a?response-content-disposition=inline%3B+filename%2A%3DUTF-8"
            "%27%27m-1.safetensors%3B+filename%3D%22m-1.safetensors%22%3B&Expires=1",
            "m-1.safetensors",
        ),
        ("http://127.0.0.1:1/large/4d7a/model.safetensors", "model.safetensors"),
        ("https://hub/api/models/org/name/revision/main", None),
        ("https://hub/api/models/org/name/tree/0123?recursive=True", None),
        ("https://cdn/xet/17ab/4d7a", None),
    ],
)
def test_which_file_a_request_was_for_is_read_from_its_address(url: str, file: str | None) -> None:
    assert _file_asked_for(url) == file


def test_too_many_requests_are_called_so(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # huggingface_hub waits between its tries
    hub.broken_status = 429
    message = failure("org/name")
    for part in ("org/name", "status 429", "too many requests", "hf auth login"):
        assert part in message


@pytest.mark.parametrize("status", [403, 500])
def test_a_hub_that_refuses_or_fails_is_quoted(hub: Any, status: int) -> None:
    hub.broken_status = status
    message = failure("org/name")
    for part in ("org/name", hub.url, f"status {status}"):
        assert part in message


def test_no_network_and_nothing_cached(hub: Any) -> None:
    hub.stop()
    message = failure("org/name")
    for part in ('"org/name"', hub.url, "could not be reached", "HF_ENDPOINT", "the cache ("):
        assert part in message


def test_a_repository_of_gguf_says_to_give_the_file(hub: Any) -> None:
    hub.add("org/gguf", {"config.json": b"{}", "model-q4.gguf": b"GGUF"})
    message = failure("org/gguf")
    for part in ("org/gguf", "no model.safetensors", "model-q4.gguf"):
        assert part in message


def test_a_repository_of_an_adapter_is_refused(hub: Any) -> None:
    hub.add("org/lora", {"adapter_config.json": b"{}", "adapter_model.safetensors": b"weights"})
    message = failure("org/lora")
    for part in ("org/lora", "no config.json", "It holds an adapter", "Merge it into its base"):
        assert part in message


def test_a_repository_of_pickles_is_refused(hub: Any) -> None:
    hub.add("org/pickle", {"config.json": b"{}", "pytorch_model.bin": b"pickle"})
    message = failure("org/pickle")
    for part in ("org/pickle", "no model.safetensors", "pytorch_model.bin", "refused"):
        assert part in message
    assert "pytorch_model.bin" not in hub.downloaded()


def test_a_repository_without_a_config_is_refused(
    hub: Any, repository_files: dict[str, bytes]
) -> None:
    del repository_files["config.json"]
    hub.add("org/name", repository_files)
    assert "no config.json" in failure("org/name")


def test_an_index_that_names_a_missing_shard_is_refused(
    hub: Any, repository_files: dict[str, bytes]
) -> None:
    index = json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}).encode()
    hub.add("org/name", repository_files | {"model.safetensors.index.json": index})
    message = failure("org/name")
    assert "no model-00001-of-00001.safetensors" in message
    assert "model.safetensors.index.json" in message


def test_a_cache_that_cannot_be_written_is_not_taken_for_a_missing_network(
    hub: Any, repository_files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.add("org/name", repository_files)
    (tmp_path / "hub").write_text("in the way", encoding="utf-8")
    message = failure("org/name")
    assert f"cannot be stored in {tmp_path / 'hub'}: a file is where a folder is needed" in message
    assert "HF_HOME" in message


@pytest.mark.parametrize("name", ["org/na me", "a--b", "org/.hidden", "x" * 97])
def test_a_name_that_no_model_can_have_is_refused(hub: Any, name: str) -> None:
    message = failure(name)
    assert name in message
    assert "org/name" in message
    assert hub.requests == []


@pytest.fixture
def cached(hub: Any, repository_files: dict[str, bytes], tmp_path: Path) -> Path:
    """A snapshot in the cache as other libraries leave it, with links into blobs, and no Hub."""
    hub.stop()
    commit = "0123456789abcdef0123456789abcdef01234567"
    model = tmp_path / "hub" / "models--org--cached"
    snapshot = model / "snapshots" / commit
    for folder in (snapshot, model / "blobs", model / "refs"):
        folder.mkdir(parents=True)
    (model / "refs" / "main").write_text(commit, encoding="utf-8")
    for number, name in enumerate(("config.json", "model.safetensors")):
        (model / "blobs" / str(number)).write_bytes(repository_files[name])
        (snapshot / name).symlink_to(Path("..", "..", "blobs", str(number)))
    return snapshot


def test_what_another_library_cached_serves_without_the_network(
    cached: Path, tensors: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)  # huggingface_hub waits between its tries
    folder = resolve("org/cached")
    assert folder == cached
    assert Checkpoint(folder).names == tuple(sorted(tensors))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_another_library_did_not_cache_is_named(
    cached: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cached / name).unlink()
    monkeypatch.setattr("time.sleep", lambda _: None)
    message = failure("org/cached")
    for part in ('"org/cached"', f"{name} missing", str(cached), "could not be reached"):
        assert part in message
