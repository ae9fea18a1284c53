"""Hub models through the programs, against a stand-in of the Hub on this machine."""

import json
import shutil
from pathlib import Path

import pytest

import package_modules
from augur_proof.tiny_checkpoint import files_of
from program_run import run_in_process, run_program

hub_stand_in = package_modules.load("hub_stand_in")

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
CHECKPOINT_FILES = [
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
]


@pytest.fixture
def hub(tiny_folder: Path):
    with hub_stand_in.HubStandIn() as hub:
        files = files_of(tiny_folder)
        hub.add(MODEL, files | {"README.md": b"# card", "pytorch_model.bin": b"no"})
        yield hub


@pytest.fixture
def environment(hub, tmp_path: Path) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}


@pytest.mark.gate
def test_a_hub_model_is_fetched_once_and_then_answers_without_the_network(
    hub, environment: dict[str, str]
):
    fetched = run_program("download_weights.py", MODEL, **environment)
    assert fetched.returncode == 0, fetched.stderr
    assert str(Path(environment["HF_HOME"]) / "hub") in fetched.stdout
    assert hub.downloaded() == CHECKPOINT_FILES

    asked = ("run_prompt.py", "Why?", "--model", MODEL, "--max-new-tokens", "3", "--device", "cpu")
    again = run_program(*asked, **environment)
    assert again.returncode == 0, again.stderr
    assert hub.downloaded() == CHECKPOINT_FILES, "the second run fetched files again"

    offline = run_program(*asked, **environment, HF_HUB_OFFLINE="1")
    hub.stop()
    unplugged = run_program(*asked, **environment)
    assert offline.stdout == unplugged.stdout == again.stdout != ""
    assert (offline.returncode, unplugged.returncode) == (0, 0)


def test_the_program_says_where_a_model_lies_and_how_large_it_is(tiny_folder: Path):
    done = run_in_process("download_weights.py", tiny_folder)
    assert done.returncode == 0, done.stderr
    assert str(tiny_folder) in done.stdout
    assert "bytes, torch.float32" in done.stdout
    assert " in 26 tensors" in done.stdout


@pytest.mark.gate
def test_a_model_that_the_hub_does_not_have_is_one_message(environment: dict[str, str]):
    done = run_program("download_weights.py", "Qwen/Qwen9-nowhere", **environment)
    assert done.returncode == 2
    assert "Qwen/Qwen9-nowhere" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.gate
@pytest.mark.parametrize("program", ["run_prompt.py", "download_weights.py"])
def test_of_a_model_that_is_not_supported_no_weights_are_fetched(
    hub, environment: dict[str, str], tiny_folder: Path, program: str
):
    files = files_of(tiny_folder)
    config = json.loads(files["config.json"]) | {"model_type": "qwen3_moe"}
    hub.add("tiny-org/mixture", files | {"config.json": json.dumps(config).encode()})
    arguments = ["Why?", "--model"] if program == "run_prompt.py" else []
    done = run_program(program, *arguments, "tiny-org/mixture", **environment)
    assert done.returncode == 2
    assert "tiny-org/mixture: model_type is 'qwen3_moe'; supported: qwen2, qwen3" in done.stderr
    assert hub.downloaded() == ["config.json"]


@pytest.mark.gate
def test_no_network_and_nothing_cached_is_one_message(hub, environment: dict[str, str]):
    hub.stop()
    done = run_program("download_weights.py", MODEL, **environment)
    assert done.returncode == 2
    assert MODEL in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_of_another_family_is_refused_by_name(tmp_path: Path, tiny_folder: Path):
    folder = shutil.copytree(tiny_folder, tmp_path / "llama")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "llama"}))
    done = run_in_process("download_weights.py", folder)
    assert done.returncode == 2
    assert f"{folder}: model_type is 'llama'; supported: qwen2, qwen3" in done.stderr
