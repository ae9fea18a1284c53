"""A tiny random Qwen2 checkpoint of nine layers with a tokenizer, and the program to run on it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from typer.testing import CliRunner

from augur_apps.parity import app
from augur_tok import QWEN2

PROMPTS = ["Why is the sky blue?", "¿Cuántas ardillas hay?", "def add(a, b):\n    return"]

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

CONFIG = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 9,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
    "tie_word_embeddings": True,
}

Program = Callable[..., Any]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as transformers writes it; read, never changed."""
    folder = tmp_path_factory.mktemp("tiny-qwen2")
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**CONFIG))
    for name, parameter in model.named_parameters():
        # transformers starts biases at 0 and norms at 1, where mistakes do not show.
        scale, shift = (0.1, 1.0) if "norm" in name else (0.3, 0.0)
        torch.nn.init.normal_(parameter, mean=shift, std=scale)
    model.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(QWEN2.split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(PROMPTS * 9, trainer)
    backend.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", chat_template=CHAT_TEMPLATE
    )


@pytest.fixture(scope="session")
def changed(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A copy of the checkpoint in which one number of the tensor that is named is changed."""

    def change(tensor_name: str) -> Path:
        folder = tmp_path_factory.mktemp("changed") / "checkpoint"
        shutil.copytree(checkpoint, folder)
        tensors = load_file(folder / "model.safetensors")
        tensors[tensor_name].view(-1)[5] += 0.5
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return change


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
    monkeypatch.setenv("COLUMNS", "100")

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
