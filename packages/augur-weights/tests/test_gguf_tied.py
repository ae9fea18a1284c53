"""Whether a GGUF model's head is its embedding is read off the two matrices."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from augur_weights.gguf_types import SUPPORTED_TYPES

gguf = pytest.importorskip("gguf", reason="the gguf extra is not installed")
np = pytest.importorskip("numpy", reason="the gguf extra is not installed")
tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))


def with_head(embedding: tuple[Any, str], head: tuple[Any, str]) -> Any:
    model = tiny.tiny_model()
    model.tensors["token_embd.weight"] = embedding
    model.tensors["output.weight"] = head
    return model


def quantized(values: Any, type_name: str) -> tuple[Any, str]:
    return gguf.quants.quantize(values, gguf.GGMLQuantizationType[type_name]), type_name


def random_matrix(seed: int) -> Any:
    shape = (tiny.VOCAB, tiny.HIDDEN)
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(0.02)


@pytest.mark.parametrize("name", ["F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1"])
def test_a_types_rounding_error_is_between_a_quarter_of_its_bound_and_the_bound(name: str):
    matrix = random_matrix(5)
    array, _ = quantized(matrix, name)
    rounded = gguf.quants.dequantize(array, gguf.GGMLQuantizationType[name])

    error = np.sqrt(np.square(rounded - matrix).mean() / np.square(matrix).mean())

    (bound,) = [t.error_bound for t in SUPPORTED_TYPES.values() if t.name == name]
    assert bound / 4 < error < bound


def test_a_file_without_an_output_matrix_is_tied(tmp_path: Path):
    folder = tiny.imported(tiny.tiny_model(), tmp_path)

    assert tiny.read_json(folder, "config.json")["tie_word_embeddings"] is True
    assert "lm_head.weight" not in tiny.checkpoint_tensors(folder)


@pytest.mark.parametrize(
    ("embedding_type", "head_type", "finer"),
    [
        ("Q5_0", "Q8_0", "Q8_0"),
        ("Q8_0", "Q4_0", "Q8_0"),
        ("Q4_1", "F16", "F16"),
        ("Q8_0", "Q8_0", "Q8_0"),
        ("F32", "BF16", "F32"),
        ("F32", "F32", "F32"),
    ],
)
def test_one_matrix_stored_in_two_types_is_tied_and_the_finer_copy_is_kept(
    embedding_type: str, head_type: str, finer: str, tmp_path: Path
):
    matrix = random_matrix(1)
    copies = {name: quantized(matrix, name) for name in (embedding_type, head_type)}

    folder = tiny.imported(with_head(copies[embedding_type], copies[head_type]), tmp_path)

    tensors = tiny.checkpoint_tensors(folder)
    assert tiny.read_json(folder, "config.json")["tie_word_embeddings"] is True
    assert "lm_head.weight" not in tensors
    assert torch.equal(tensors["model.embed_tokens.weight"], tiny.expected_bfloat16(copies[finer]))


@pytest.mark.parametrize("types", [("F32", "F32"), ("Q5_0", "Q8_0"), ("Q2_K", "Q3_K")])
def test_two_matrices_are_untied_and_both_are_kept(types: tuple[str, str], tmp_path: Path):
    rng = np.random.default_rng(2)
    embedding, head = ((tiny.stored(rng, t, (tiny.VOCAB, tiny.HIDDEN)), t) for t in types)

    folder = tiny.imported(with_head(embedding, head), tmp_path)

    tensors = tiny.checkpoint_tensors(folder)
    assert tiny.read_json(folder, "config.json")["tie_word_embeddings"] is False
    assert torch.equal(tensors["model.embed_tokens.weight"], tiny.expected_bfloat16(embedding))
    assert torch.equal(tensors["lm_head.weight"], tiny.expected_bfloat16(head))


@pytest.mark.parametrize(("types", "change"), [(("F32", "F32"), 1e-3), (("Q5_0", "Q8_0"), 0.3)])
def test_a_head_that_differs_by_more_than_rounding_is_untied(
    types: tuple[str, str], change: float, tmp_path: Path
):
    matrix = random_matrix(3)
    trained_further = matrix + np.float32(change) * random_matrix(4)

    folder = tiny.imported(
        with_head(quantized(matrix, types[0]), quantized(trained_further, types[1])), tmp_path
    )

    assert tiny.read_json(folder, "config.json")["tie_word_embeddings"] is False
