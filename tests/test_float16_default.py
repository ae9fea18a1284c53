"""Which attention the programs take by default, and that float16 then stands large scores."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from augur.attention_choice import AttentionName, choose_attention
from augur.devices import DTypeName
from augur.llm import load
from augur_model import EAGER, EAGER_F32, OPS_BY_ATTENTION
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from program_run import run_in_process

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float32, "eager"), (torch.bfloat16, "eager"), (torch.float16, "eager-f32")],
    ids=str,
)
def test_the_default_is_the_reference_that_is_finite_in_the_dtype(
    dtype: torch.dtype, expected: str
) -> None:
    assert choose_attention(None, dtype) == expected
    for name in OPS_BY_ATTENTION:
        assert choose_attention(name, dtype) == name


@pytest.fixture(scope="module")
def large_scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose biases of q and k alone come to a score of 80,000."""
    folder = write_tiny_checkpoint(tmp_path_factory.mktemp("large") / "checkpoint")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name, tensor in tensors.items():
        # The dimension of each head, 8 wide, that the rotation turns least.
        if name.endswith("q_proj.bias"):
            tensor.view(-1, 8)[:, 3] = 400.0
        elif name.endswith("k_proj.bias"):
            tensor.view(-1, 8)[:, 3] = 200.0
    save_file(tensors, path, metadata={"format": "pt"})
    return folder


def logits(folder: Path, dtype: DTypeName, attention: AttentionName | None = None) -> torch.Tensor:
    engine = load(folder, device="cpu", dtype=dtype, attention=attention)
    with torch.inference_mode():
        return engine.model(torch.arange(20)[None])


def test_float16_is_finite_by_default_and_eager_is_not(large_scores: Path) -> None:
    assert torch.isfinite(logits(large_scores, "float16")).all()
    assert not torch.isfinite(logits(large_scores, "float16", "eager")).any()
    assert torch.isfinite(logits(large_scores, "bfloat16")).all()


def test_the_engine_computes_with_what_it_names(large_scores: Path) -> None:
    for dtype, ops in (("float16", EAGER_F32), ("bfloat16", EAGER)):
        engine = load(large_scores, device="cpu", dtype=dtype)
        assert engine.model.ops == ops == OPS_BY_ATTENTION[engine.attention]


@pytest.mark.parametrize(
    ("options", "attention"),
    [
        ((), "eager"),
        (("--dtype", "float16"), "eager-f32"),
        (("--dtype", "bfloat16", "--attention", "eager"), "eager"),
        (("--attention", "eager-f32"), "eager-f32"),
    ],
)
def test_the_program_says_which_it_took(
    large_scores: Path, options: tuple[str, ...], attention: str
) -> None:
    asked = ("Why?", "--model", large_scores, "--max-new-tokens", "1", "--device", "cpu")
    done = run_in_process("run_prompt.py", *asked, "--json", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["attention"] == attention


def test_eager_in_float16_answers_nothing_where_its_scores_overflow(large_scores: Path) -> None:
    asked = ("Why?", "--model", large_scores, "--max-new-tokens", "1", "--device", "cpu")
    done = run_in_process("run_prompt.py", *asked, "--dtype", "float16", "--attention", "eager")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no token can be chosen" in done.stderr
