"""A model that augur does not compute is refused by its type's name, with what is supported."""

import json
from pathlib import Path
from typing import Any

import pytest

from program_run import run_in_process

UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    model_type: ({"model_type": model_type}, f"model_type is '{model_type}'; supported: ")
    for model_type in (
        "qwen",
        "qwen2_moe",
        "qwen2_vl",
        "qwen2_5_vl",
        "qwen2_5_omni",
        "qwen2_audio",
        "qwen3_moe",
        "qwen3_next",
        "qwen3_vl",
        "llama",
        "mistral",
    )
}
UNSUPPORTED |= {
    "no model type": ({"model_type": None}, "model_type is None; supported: "),
    "activation": ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; supported: silu"),
    "scaling": (
        {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        "rope_type is 'dynamic'; supported: default, yarn",
    ),
}
PROGRAMS = {
    "run_prompt.py": lambda folder: ("Why?", "--model", folder),
    "download_weights.py": lambda folder: (folder,),
    "a plan": lambda folder: (folder, "--plan"),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_it_is_refused_by_name(tmp_path: Path, tiny_folder: Path, name: str, program: str) -> None:
    changes, said = UNSUPPORTED[name]
    folder = tmp_path / "other"
    folder.mkdir()
    for path in tiny_folder.iterdir():
        if path.name != "config.json":
            (folder / path.name).symlink_to(path)
    config = json.loads((tiny_folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    script = program if program.endswith(".py") else "download_weights.py"
    done = run_in_process(script, *PROGRAMS[program](folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {folder}: {said}" in done.stderr
    if "model_type" in changes:
        assert "supported: qwen2, qwen3" in done.stderr


@pytest.mark.parametrize("program", ["run_prompt.py", "download_weights.py"])
def test_quantised_weights_are_refused_by_their_method(
    tmp_path: Path, tiny_folder: Path, program: str
) -> None:
    config = json.loads((tiny_folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4}
    folder = tmp_path / "quantised"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(tiny_folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    done = run_in_process(program, *PROGRAMS[program](folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert "the weights are quantised ('gptq')" in done.stderr
