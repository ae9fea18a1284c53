"""What an opened checkpoint says of itself, and which folders it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from augur_weights import Checkpoint, CheckpointError
from augur_weights.layout import read_index

Tensors = dict[str, torch.Tensor]
Write = Callable[..., Path]
Save = Callable[[Tensors], bytes]


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_single_file_is_read_as_it_was_written(tensors: Tensors, write_checkpoint: Write) -> None:
    folder = write_checkpoint(tensors, config={"hidden_size": 4})
    checkpoint = Checkpoint(folder)
    assert checkpoint.folder == folder
    assert checkpoint.config == {"hidden_size": 4}
    assert checkpoint.generation_config == {}
    assert checkpoint.names == ("embed.weight", "layer.bias", "layer.weight")
    assert checkpoint.files == (folder / "model.safetensors",)
    assert checkpoint.num_parameters == 28 + 16 + 4
    assert checkpoint.num_bytes == 2 * 48
    for name, tensor in tensors.items():
        assert name in checkpoint
        assert checkpoint.shape(name) == tuple(tensor.shape)
        assert checkpoint.dtype(name) == torch.bfloat16
        assert torch.equal(checkpoint.tensor(name), tensor)


def test_shards_are_read_from_where_the_index_says(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    first = {"embed.weight": tensors.pop("embed.weight")}
    checkpoint = Checkpoint(write_checkpoint(first, tensors))
    assert len(checkpoint.files) == 2
    assert checkpoint.file("embed.weight").name == "model-00001-of-00002.safetensors"
    for name, tensor in (first | tensors).items():
        assert torch.equal(checkpoint.tensor(name), tensor)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool]
)
def test_dtypes_and_scalars_come_through(dtype: torch.dtype, write_checkpoint: Write) -> None:
    stored = {"scalar": torch.tensor(1, dtype=dtype), "empty": torch.empty(0, 3, dtype=dtype)}
    checkpoint = Checkpoint(write_checkpoint(stored))
    for name, tensor in stored.items():
        assert checkpoint.dtype(name) == dtype
        assert checkpoint.shape(name) == tuple(tensor.shape)
        assert checkpoint.tensor(name).dtype == dtype
        assert torch.equal(checkpoint.tensor(name), tensor)


def test_the_generation_config_is_read_where_there_is_one(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors)
    text = json.dumps({"eos_token_id": [1, 2]})
    (folder / "generation_config.json").write_text(text, encoding="utf-8")
    assert Checkpoint(folder).generation_config == {"eos_token_id": [1, 2]}


def test_an_unknown_tensor_is_named(tensors: Tensors, write_checkpoint: Write) -> None:
    checkpoint = Checkpoint(write_checkpoint(tensors))
    assert "nonsense" not in checkpoint
    for question in (checkpoint.shape, checkpoint.dtype, checkpoint.file, checkpoint.tensor):
        with pytest.raises(CheckpointError, match=r'has no tensor "nonsense"'):
            question("nonsense")


def test_the_index_is_the_law(tensors: Tensors, write_checkpoint: Write, save: Save) -> None:
    # A whole file, and a shard, that the map does not name.
    folder = write_checkpoint(tensors, index=True)
    for name in ("model.safetensors", "model-00002-of-00002.safetensors"):
        (folder / name).write_bytes(save({"embed.weight": torch.zeros(1)}))
    checkpoint = Checkpoint(folder)
    assert checkpoint.names == tuple(sorted(tensors))
    assert torch.equal(checkpoint.tensor("embed.weight"), tensors["embed.weight"])


def test_a_tensor_that_the_index_does_not_name_is_refused(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors, index=True)
    index_path = folder / "model.safetensors.index.json"
    index = json.loads(index_path.read_text(encoding="utf-8"))
    del index["weight_map"]["layer.bias"]
    index_path.write_text(json.dumps(index), encoding="utf-8")
    shard = folder / "model-00001-of-00001.safetensors"
    message = refusal(folder)
    assert f'{shard}: holds tensor "layer.bias"' in message
    assert "model.safetensors.index.json does not name it" in message


def test_a_tensor_that_lies_in_two_shards_is_refused(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    # Equal or not: engines differ in which of the two they take.
    first = {"embed.weight": tensors["embed.weight"], "layer.bias": tensors["layer.bias"]}
    second = {"layer.bias": tensors["layer.bias"] + 1}
    message = refusal(write_checkpoint(first, second))
    assert 'model-00001-of-00002.safetensors: holds tensor "layer.bias"' in message
    assert "gives it the file model-00002-of-00002.safetensors" in message


def test_a_missing_shard_is_named(tensors: Tensors, write_checkpoint: Write) -> None:
    folder = write_checkpoint({"a": tensors["layer.bias"]}, {"b": tensors["layer.weight"]})
    (folder / "model-00002-of-00002.safetensors").unlink()
    message = refusal(folder)
    assert str(folder / "model-00002-of-00002.safetensors") in message
    assert "missing" in message


def test_a_tensor_that_is_not_where_the_index_says_is_named(
    tensors: Tensors, write_checkpoint: Write, save: Save
) -> None:
    folder = write_checkpoint(tensors, index=True)
    shard = folder / "model-00001-of-00001.safetensors"
    del tensors["layer.bias"]
    shard.write_bytes(save(tensors))
    message = refusal(folder)
    assert f'{shard}: has no tensor "layer.bias"' in message


@pytest.mark.parametrize(
    "entry",
    [
        "../outside.safetensors",
        "/outside.safetensors",
        "sub/inside.safetensors",
        "..\\outside.safetensors",
        "C:outside.safetensors",
        "weights.bin",
        "nul\0.safetensors",
        "line\n.safetensors",
        "\ud800.safetensors",
        "x" * 300 + ".safetensors",
        ["model.safetensors"],
        "",
        None,
        7,
    ],
)
def test_an_index_entry_that_is_no_file_beside_it_is_refused(
    entry: object, tensors: Tensors, write_checkpoint: Write, save: Save, tmp_path: Path
) -> None:
    folder = write_checkpoint(tensors)
    # All of them would open, were they followed.
    (folder / "sub").mkdir()
    for path in (tmp_path / "outside.safetensors", folder / "sub" / "inside.safetensors"):
        path.write_bytes(save(tensors))
    text = json.dumps({"weight_map": {"embed.weight": entry}})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    message = refusal(folder)
    assert repr(entry)[:60] in message
    assert "Refused" in message


@pytest.mark.parametrize("text", ["{}", '{"weight_map": {}}', '{"weight_map": ["a"]}'])
def test_an_index_without_a_weight_map_is_refused(
    text: str, tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors)
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    message = refusal(folder)
    assert "model.safetensors.index.json" in message
    assert "weight_map" in message


@pytest.mark.parametrize(
    ("key", "settings", "method"),
    [
        ("quantization_config", {"quant_method": "gptq", "bits": 4}, "gptq"),
        ("quantization_config", {"bits": 4}, "unnamed"),
        ("compression_config", {"quant_method": "compressed-tensors"}, "compressed-tensors"),
        ("quantization", {"group_size": 64, "bits": 4}, "unnamed"),
        ("quantization_config", "awq", "unnamed"),
    ],
)
def test_a_quantised_checkpoint_is_refused_by_its_method(
    key: str, settings: object, method: str, tensors: Tensors, write_checkpoint: Write
) -> None:
    message = refusal(write_checkpoint(tensors, config={key: settings}))
    assert f'"{key}"' in message
    assert f"method: {method}" in message


def test_a_quantization_config_of_null_means_none(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    assert Checkpoint(write_checkpoint(tensors, config={"quantization_config": None})).names


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_what_is_in_the_place_of_a_needed_file_is_told(
    name: str, tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors)
    (folder / name).unlink()
    for target in (name, "gone"):
        (folder / name).symlink_to(target)
        said = f"{folder / name}: is a link that leads to no file (to {target}). Put the file"
        assert refusal(folder).startswith(said)
        (folder / name).unlink()
    (folder / name).mkdir()
    assert refusal(folder).startswith(f"{folder / name}: is a folder, expected a file. Put the")


def test_a_folder_in_the_place_of_a_shard_is_told(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors, index=True)
    shard = folder / "model-00001-of-00001.safetensors"
    shard.unlink()
    shard.mkdir()
    assert refusal(folder).startswith(f"{shard}: is a folder, expected a file.")


def test_a_link_to_itself_is_told_with_what_to_do(
    tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors)
    (folder / "generation_config.json").symlink_to("generation_config.json")
    message = refusal(folder)
    path = folder / "generation_config.json"
    assert message.startswith(f"{path}: is a link that leads to no file (to {path.name}). ")
    assert message.endswith("or fetch it again.")


def test_the_index_is_read_once(
    tensors: Tensors, write_checkpoint: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read = write_checkpoint(tensors, index=True), []

    def note(path: Path) -> dict[str, str]:
        read.append(path)
        return read_index(path)

    monkeypatch.setattr("augur_weights.layout.read_index", note)
    assert Checkpoint(folder).names == tuple(sorted(tensors))
    assert read == [folder / "model.safetensors.index.json"]


@pytest.mark.parametrize("config", [True, False], ids=["with config.json", "without"])
@pytest.mark.parametrize(
    "names", [["adapter_model.safetensors"], ["adapter_config.json", "adapter_model.bin"]]
)
def test_an_adapter_is_told_as_such(
    names: list[str], config: bool, tensors: Tensors, write_checkpoint: Write
) -> None:
    folder = write_checkpoint(tensors)
    (folder / "model.safetensors").rename(folder / names[-1])
    for name in names:
        (folder / name).touch()
    if not config:
        (folder / "config.json").unlink()
    message = refusal(folder)
    assert message.startswith(f"{folder}: has no ")
    assert "It holds an adapter (LoRA or the like) and not a model" in message
    assert "Merge it into its base model" in message


def test_a_folder_that_is_not_there_is_no_checkpoint(tmp_path: Path) -> None:
    assert "has no config.json" in refusal(tmp_path / "nowhere")
