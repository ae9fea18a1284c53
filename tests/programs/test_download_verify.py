"""`download_weights.py --verify`: what is wrong, in which file, and what to do."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

import package_modules
from augur_proof.tiny_checkpoint import files_of, write_tiny_checkpoint
from program_run import run_in_process

hub_stand_in = package_modules.load("hub_stand_in")
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"


def flip_bit(path: Path, at: bytes = b"") -> None:
    """Change the first byte of `at` in the file, or the file's last one."""
    data = bytearray(path.read_bytes())
    data[data.index(at) if at else -1] ^= 1
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


def the_error(stderr: str) -> str:
    """The one line that is left of stderr without those of the progress bars."""
    bars = ("weights ", "digests ")
    (line,) = (it for it in stderr.removesuffix("\n").split("\n") if not it.startswith(bars))
    return line


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
    flip_bit(snapshot / "model.safetensors")
    flip_bit(snapshot / "tokenizer_config.json", at=b"assistant")
    # Either can be used, so nothing short of reading every byte can tell.
    assert run_in_process("download_weights.py", MODEL).returncode == 0

    damaged = run_in_process("download_weights.py", MODEL, "--verify")
    assert damaged.returncode == 2
    assert damaged.stdout == ""
    errors = [line for line in damaged.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2
    for line, name in zip(errors, ("model.safetensors", "tokenizer_config.json"), strict=True):
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


@pytest.mark.parametrize(
    "name", ["a\x1b[31mred\nerror: all is well", "\u202egnp.exe", "x" * 1_000_000]
)
def test_a_name_out_of_a_file_is_told_in_one_bounded_printable_line(
    tmp_path: Path, name: str
) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {name: torch.tensor([float("nan")])}, folder / "model.safetensors")
    done = run_in_process("download_weights.py", folder, "--verify")
    assert done.returncode == 2
    line = the_error(done.stderr)
    assert line.isprintable()
    assert len(line) <= 2000
    assert line.startswith(f"error: {folder / 'model.safetensors'}: tensor")
    assert "is nan at [0]; no trained weight is" in line


@pytest.mark.parametrize("option", [[], ["--verify"], ["--plan"]])
def test_the_name_of_a_model_begins_no_line(tmp_path: Path, option: list[str]) -> None:
    folder = write_tiny_checkpoint(tmp_path / "a\nerror: fake")
    whole = run_in_process("download_weights.py", folder, *option)
    assert whole.returncode == 0, whole.stderr
    assert "a\\nerror: fake" in whole.stdout
    (folder / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    refused = run_in_process("download_weights.py", folder, *option)
    assert refused.returncode == 2
    assert "model_type is 'llama'" in the_error(refused.stderr)
    assert "\nerror: fake" not in whole.stdout + whole.stderr + refused.stderr


def test_a_tied_head_that_differs_is_refused_as_it_is_where_the_model_runs(tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    same = run_in_process("download_weights.py", folder, "--verify")
    assert same.returncode == 0, same.stderr

    tensors["lm_head.weight"][5, 3] += 1
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert run_in_process("download_weights.py", folder).returncode == 0  # reads no weight
    verified = run_in_process("download_weights.py", folder, "--verify")
    assert (verified.returncode, verified.stdout) == (2, "")
    run = run_in_process("run_prompt.py", "Why?", "--model", folder, "--device", "cpu")
    assert (run.returncode, run.stderr) == (2, the_error(verified.stderr) + "\n")
    assert '"model.embed_tokens.weight" and "lm_head.weight" differ' in verified.stderr


@pytest.mark.parametrize("option", [[], ["--verify"]])
@pytest.mark.parametrize("instead", ["nothing", "no JSON"])
def test_a_tokenizer_that_cannot_be_opened_is_named(
    tmp_path: Path, instead: str, option: list[str]
) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    (folder / "tokenizer.json").unlink()
    if instead == "no JSON":
        (folder / "tokenizer.json").write_text("{", encoding="utf-8")
    done = run_in_process("download_weights.py", folder, *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert "tokenizer.json" in the_error(done.stderr)
    assert str(folder) in the_error(done.stderr)


@pytest.mark.parametrize("option", [[], ["--verify"]])
def test_a_folder_in_the_place_of_the_tokenizer_is_named(tmp_path: Path, option: list[str]) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()
    done = run_in_process("download_weights.py", folder, *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert "tokenizer.json" in the_error(done.stderr)


@pytest.mark.parametrize("target", ["tokenizer_config.json", "gone"], ids=["loop", "nowhere"])
def test_a_link_of_the_tokenizers_that_leads_to_no_file_is_named(
    tmp_path: Path, target: str
) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    (folder / "tokenizer_config.json").unlink()
    (folder / "tokenizer_config.json").symlink_to(target)
    done = run_in_process("download_weights.py", folder, "--verify")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{folder / 'tokenizer_config.json'}: is a link that leads to no file" in done.stderr


def test_an_end_of_text_that_is_no_token_is_named(tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    (folder / "generation_config.json").write_text('{"eos_token_id": -1}', encoding="utf-8")
    done = run_in_process("download_weights.py", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "generation_config.json: eos_token_id is -1" in done.stderr


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
