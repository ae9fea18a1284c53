"""A tiny random Qwen2 checkpoint of nine layers, and the program to run on it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from augur_apps import parity as parity_program
from augur_apps import parity_kernel
from augur_apps.parity import app
from augur_proof import write_tiny_checkpoint

PROMPTS = ["Why is the sky blue?", "¿Cuántas ardillas hay?", "def add(a, b):\n    return"]

Program = Callable[..., Any]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read, never changed."""
    folder = tmp_path_factory.mktemp("tiny-qwen2") / "checkpoint"
    return write_tiny_checkpoint(folder, num_hidden_layers=9)


@pytest.fixture(scope="session")
def changed(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkpoint in which one number of layer 7's down_proj is another."""
    folder = tmp_path_factory.mktemp("changed") / "checkpoint"
    shutil.copytree(checkpoint, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.7.mlp.down_proj.weight"].view(-1)[5] += 0.5
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def prompts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompts") / "prompts.json"
    path.write_text(json.dumps(PROMPTS), encoding="utf-8")
    return path


@pytest.fixture
def parity(monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program as a function: arguments in, exit code, stdout and stderr out.

    `wrong_ops` beside this file can be named by `--ops`.
    """
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.setattr(parity_kernel.stdout, "width", 100)
    monkeypatch.setattr(parity_program.stdout, "width", 100)

    def run(*arguments: object) -> Any:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture(scope="session")
def truth_file(
    checkpoint: Path, prompts_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What `record` writes for the tiny checkpoint; read, never changed."""
    path = tmp_path_factory.mktemp("truth") / "truth.safetensors"
    arguments = ["--model", checkpoint, "--prompts", prompts_file, "--max-new-tokens", 8]
    result = CliRunner().invoke(app, ["record", *map(str, arguments), "--out", str(path)])
    assert result.exit_code == 0, result.output
    return path
