"""Memory is told before it is taken: from config.json alone, and equal to what is then taken."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import package_modules
from augur.devices import DTYPES
from augur.memory_plan import MemoryPlan, gigabytes
from augur_gen import StaticKVCache
from augur_model import QwenConfig, QwenForCausalLM
from augur_proof.published_sizes import PUBLISHED, published_config
from augur_proof.tiny_checkpoint import CONFIG, write_tiny_checkpoint
from program_run import run_in_process, run_program

hub_stand_in = package_modules.load("hub_stand_in")

TINY = CONFIG | {"vocab_size": 259}
WINDOWS = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}

# 2 x layers x key/value heads x head_dim x 2 bytes, worked out by hand
CACHE_BYTES_PER_TOKEN = {
    "Qwen2.5-0.5B": 12_288,
    "Qwen2.5-7B": 57_344,
    "Qwen2.5-72B": 327_680,
    "Qwen3-0.6B": 114_688,
    "Qwen3-32B": 262_144,
}


@pytest.mark.parametrize("name", CACHE_BYTES_PER_TOKEN)
def test_a_published_size_takes_what_its_parameters_and_heads_say(name: str) -> None:
    plan = MemoryPlan.of(QwenConfig.from_dict(published_config(name)), 1000)
    *_, parameters = PUBLISHED[name]
    assert plan.weight_bytes(torch.bfloat16) == plan.weight_bytes(torch.float16) == 2 * parameters
    assert plan.weight_bytes(torch.float32) == 4 * parameters
    assert plan.cache_bytes_per_token(torch.bfloat16) == CACHE_BYTES_PER_TOKEN[name]
    assert plan.cache_bytes(torch.float32) == 2 * 1000 * CACHE_BYTES_PER_TOKEN[name]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("change", [{}, {"tie_word_embeddings": False}, WINDOWS], ids=str)
def test_what_is_told_is_what_is_taken(change: dict[str, Any], dtype: torch.dtype) -> None:
    model = QwenForCausalLM(QwenConfig.from_dict(TINY | change)).to(dtype)
    plan = MemoryPlan.of(model.config, 50)
    assert plan.weight_bytes(dtype) == sum(it.nbytes for it in model.parameters())
    assert plan.cache_bytes(dtype) == StaticKVCache.for_model(model, 50).num_bytes


def test_sizes_are_rounded_for_a_person() -> None:
    assert gigabytes(988_065_536) == "0.99 GB"
    assert gigabytes(12_345_678_901) == "12.35 GB"
    assert gigabytes(393_216) == "0.4 MB"


@pytest.fixture
def config_folder(tmp_path: Path) -> Path:
    """A folder with config.json and nothing else."""
    folder = tmp_path / "config"
    folder.mkdir()
    text = json.dumps(published_config("Qwen2.5-7B"))
    (folder / "config.json").write_text(text, encoding="utf-8")
    return folder


def test_the_program_prints_a_table_from_the_config_alone(config_folder: Path) -> None:
    done = run_in_process("download_weights.py", config_folder, "--plan")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["parameters", "7,615,616,512"] in rows
    assert ["context", "32,768", "tokens", "of", "32,768"] in rows
    assert ["float32", "30.46", "GB", "114,688", "B", "3.76", "GB", "34.22", "GB"] in rows
    assert ["bfloat16", "15.23", "GB", "57,344", "B", "1.88", "GB", "17.11", "GB"] in rows
    assert ["float16", "15.23", "GB", "57,344", "B", "1.88", "GB", "17.11", "GB"] in rows


def test_json_has_the_bytes(config_folder: Path) -> None:
    done = run_in_process(
        "download_weights.py", config_folder, "--plan", "--json", "--context", "100"
    )
    found = json.loads(done.stdout)
    assert (found["model"], found["parameters"]) == (str(config_folder), 7_615_616_512)
    assert found["context"] == 100
    assert set(found["dtypes"]) == set(DTYPES)
    assert found["dtypes"]["bfloat16"] == {
        "weight_bytes": 15_231_233_024,
        "cache_bytes_per_token": 57_344,
        "cache_bytes": 5_734_400,
    }


WRONG = {
    "more than the positions": (["--plan", "--context", "32769"], "from 1 to 32768 tokens"),
    "no context": (["--plan", "--context", "0"], "--context is 0"),
    "a context without a plan": (["--context", "5"], "go with --plan"),
    "json without a plan": (["--json"], "go with --plan"),
    "nothing to verify": (["--plan", "--verify"], "--verify"),
}


@pytest.mark.parametrize("name", WRONG)
def test_options_that_do_not_go_together_are_refused(config_folder: Path, name: str) -> None:
    arguments, said = WRONG[name]
    done = run_in_process("download_weights.py", config_folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.gate
def test_of_a_hub_model_no_weights_are_fetched(config_folder: Path, tmp_path: Path) -> None:
    with hub_stand_in.HubStandIn() as hub:
        config = (config_folder / "config.json").read_bytes()
        hub.add("Qwen/Qwen2.5-7B", {"config.json": config, "model.safetensors": b"many bytes"})
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
        done = run_program("download_weights.py", "Qwen/Qwen2.5-7B", "--plan", **environment)
        assert done.returncode == 0, done.stderr
        assert "7,615,616,512" in done.stdout
        assert hub.downloaded() == ["config.json"]


def test_an_answer_tells_the_memory_of_weights_and_cache(tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path / "tiny")
    asked = ("Why?", "--raw", "--model", folder, "--max-new-tokens", "7", "--device", "cpu")
    done = run_in_process("run_prompt.py", *asked, "--dtype", "bfloat16", "--json")
    figures = json.loads(done.stdout)
    config = QwenConfig.from_dict(json.loads((folder / "config.json").read_text()))
    capacity = len(figures["prompt_token_ids"]) + 7
    cache = StaticKVCache(config, capacity, dtype=torch.bfloat16, device="cpu")
    assert figures["cache_bytes"] == cache.num_bytes
    # The file holds float32, and a header.
    file = folder / "model.safetensors"
    assert figures["weight_bytes"] == (file.stat().st_size - _header_bytes(file)) // 2
    assert f"weights {gigabytes(figures['weight_bytes'])} | cache" in done.stderr


def _header_bytes(path: Path) -> int:
    with path.open("rb") as stream:
        return 8 + int.from_bytes(stream.read(8), "little")
