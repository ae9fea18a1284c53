"""`download_weights.py --verify`: what is wrong, in which file, and what to do."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

import package_modules
from program_run import run_in_process
from tiny_checkpoint import files_of, write_tiny_checkpoint

hub_stand_in = package_modules.load("hub_stand_in")
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"


def flip_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.resolve().write_bytes(data)


def set_weight(folder: Path, name: str, number: int, stored: bytes) -> None:
    """Overwrite one number of a tensor in the file."""
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    (header_bytes,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + header_bytes])
    start = 8 + header_bytes + header[name]["data_offsets"][0] + number * len(stored)
    data[start : start + len(stored)] = stored
    path.write_bytes(data)


@pytest.fixture
def hub(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stand-in of the Hub that has MODEL, and huggingface_hub set to use it."""
    with hub_stand_in.HubStandIn() as hub:
        hub.add(MODEL, files_of(tiny_folder) | {"README.md": b"# card"})
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield


@pytest.mark.usefixtures("hub")
def test_damage_to_a_hub_model_is_named_and_what_it_says_repairs_it(tmp_path: Path) -> None:
    whole = run_in_process("download_weights.py", MODEL, "--verify")
    assert whole.returncode == 0, whole.stderr
    assert "digests     5 files as published by the Hub for commit" in whole.stdout
    assert "values      finite in all 26 tensors" in whole.stdout

    (snapshot,) = tmp_path.glob("hub/models--*/snapshots/*")
    for name in ("model.safetensors", "tokenizer.json"):
        flip_bit(snapshot / name)
    # The sizes are right, so nothing short of reading every byte can tell.
    assert run_in_process("download_weights.py", MODEL).returncode == 0

    damaged = run_in_process("download_weights.py", MODEL, "--verify")
    assert damaged.returncode == 2
    assert damaged.stdout == ""
    errors = [line for line in damaged.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2
    for line, name in zip(errors, ("model.safetensors", "tokenizer.json"), strict=True):
        blob = (snapshot / name).resolve()
        assert f"{snapshot / name}: is damaged" in line
        assert f"Delete {blob} and run again" in line
        blob.unlink()

    repaired = run_in_process("download_weights.py", MODEL, "--verify")
    assert repaired.returncode == 0, repaired.stderr
    assert repaired.stdout == whole.stdout


@pytest.mark.parametrize(
    ("value", "shown"), [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")]
)
def test_a_weight_that_is_not_finite_is_named(tmp_path: Path, value: float, shown: str) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    name = "model.layers.1.mlp.down_proj.weight"  # [32, 88] in float32
    set_weight(folder, name, 3 * 88 + 7, struct.pack("<f", value))
    assert run_in_process("download_weights.py", folder).returncode == 0
    done = run_in_process("download_weights.py", folder, "--verify")
    assert done.returncode == 2
    assert done.stdout == ""
    assert f'tensor "{name}" has 1 values that are not finite' in done.stderr
    assert f"the first is {shown} at [3, 7]" in done.stderr
    assert f"Fetch {folder / 'model.safetensors'} again" in done.stderr


def test_of_a_local_folder_it_says_what_can_be_checked(tiny_folder: Path) -> None:
    done = run_in_process("download_weights.py", tiny_folder, "--verify")
    assert done.returncode == 0, done.stderr
    assert "digests     none are known for a local folder" in done.stdout
    assert "values      finite in all 26 tensors" in done.stdout


def test_weights_that_do_not_fit_the_config_are_named_without_verify(tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"intermediate_size": 80}), encoding="utf-8")
    done = run_in_process("download_weights.py", folder)
    assert done.returncode == 2
    for part in (str(folder / "model.safetensors"), "[88, 32]", "[80, 32]"):
        assert part in done.stderr
