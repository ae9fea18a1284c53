"""Whether a GGUF model's head is its embedding is read off the two matrices."""

import itertools
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

gguf = pytest.importorskip("gguf", reason="the gguf extra is not installed")
np = pytest.importorskip("numpy", reason="the gguf extra is not installed")
from augur_weights import gguf_tied  # noqa: E402  (needs gguf)
from augur_weights.gguf_dequantize import _SCALE_STEP as SCALE_STEP  # noqa: E402
from augur_weights.gguf_dequantize import dequantize, rounding_steps  # noqa: E402
from augur_weights.gguf_types import SUPPORTED_TYPES  # noqa: E402

tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))


TYPES = {tensor_type.name: tensor_type for tensor_type in SUPPORTED_TYPES.values()}
BLOCK_TYPES = {name: t for name, t in TYPES.items() if t.code_bytes is not None}
QUANTIZABLE = ["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1"]


def rounded(matrix: Any, name: str) -> tuple[Any, Any]:
    """What a type makes of a matrix, and the mean square of its error in each row by its steps."""
    blocks = bytearray(quantized(matrix, name)[0].tobytes())
    values = dequantize(blocks, TYPES[name]).reshape(matrix.shape)
    steps = rounding_steps(blocks, TYPES[name], values)
    return values, np.square(steps, dtype=np.float64).mean(axis=1) / 12


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


@pytest.mark.parametrize("name", [t.name for t in BLOCK_TYPES.values()])
def test_every_value_lies_on_the_grid_that_its_blocks_scales_span(name: str):
    stored = bytearray(tiny.stored(np.random.default_rng(6), name, (4, 512)).tobytes())
    codeless = np.array(stored, np.uint8).reshape(-1, BLOCK_TYPES[name].block_bytes)
    codeless[:, BLOCK_TYPES[name].code_bytes] = 0
    values = dequantize(stored, BLOCK_TYPES[name])
    origins = dequantize(bytearray(codeless), BLOCK_TYPES[name])

    steps = rounding_steps(stored, BLOCK_TYPES[name], values) - SCALE_STEP
    spanned = steps > 0  # a block of any bytes may have a scale of zero
    codes = (values - origins)[spanned] / steps[spanned]

    assert np.abs(codes - codes.round()).max() < 0.05
    assert len(np.unique(np.abs(codes.round()))) > BLOCK_TYPES[name].code_steps


@pytest.mark.parametrize("shape", ["bell", "wide"])
@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(QUANTIZABLE, 2)))
def test_two_roundings_of_a_matrix_differ_by_what_their_steps_say(one: str, other: str, shape: str):
    rng = np.random.default_rng(5)
    draw = rng.standard_normal if shape == "bell" else rng.laplace
    matrix = np.float32(0.02) * draw(size=(256, 512)).astype(np.float32)
    values, errors = zip(*(rounded(matrix, name) for name in (one, other)), strict=True)

    share = np.square(values[0] - values[1], dtype=np.float64).mean(axis=1) / sum(errors)

    assert 0.8 < share.mean() < gguf_tied._MOST_OF_ALL
    assert share.max() < gguf_tied._MOST_OF_A_ROW


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


@pytest.mark.gate
@pytest.mark.parametrize(
    "types", list(itertools.combinations_with_replacement(QUANTIZABLE, 2)), ids="-".join
)
def test_a_head_that_is_a_tenth_apart_is_untied(types: tuple[str, str], tmp_path: Path):
    matrix = random_matrix(3)
    trained_further = matrix + np.float32(0.1) * random_matrix(4)

    folder = tiny.imported(
        with_head(quantized(matrix, types[0]), quantized(trained_further, types[1])), tmp_path
    )

    assert tiny.read_json(folder, "config.json")["tie_word_embeddings"] is False


@pytest.mark.parametrize("types", [("Q5_0", "Q8_0"), ("Q4_0", "Q4_0"), ("F32", "BF16")])
@pytest.mark.parametrize("row", [100, 260], ids=["a byte pair's", "an added token's"])
def test_a_head_of_which_one_row_was_trained_is_untied(
    types: tuple[str, str], row: int, tmp_path: Path
):
    head = random_matrix(3)
    head[row] += random_matrix(4)[row]

    folder = tiny.imported(
        with_head(quantized(random_matrix(3), types[0]), quantized(head, types[1])), tmp_path
    )

    assert tiny.read_json(folder, "config.json")["tie_word_embeddings"] is False


@pytest.mark.parametrize("types", [("F32", "BF16"), ("Q5_0", "Q8_0"), ("Q8_0", "Q8_0")])
def test_a_head_that_was_only_scaled_is_untied(types: tuple[str, str], tmp_path: Path):
    embedding, head = random_matrix(3), random_matrix(3) * np.float32(1.07)

    folder = tiny.imported(
        with_head(quantized(embedding, types[0]), quantized(head, types[1])), tmp_path
    )

    assert tiny.read_json(folder, "config.json")["tie_word_embeddings"] is False


def test_rows_of_almost_nothing_are_as_tied_as_others(tmp_path: Path):
    matrix = random_matrix(7)
    matrix[270:280] = 0
    matrix[280:] *= np.float32(1e-6)  # less than the smallest scale

    folder = tiny.imported(
        with_head(quantized(matrix, "Q5_0"), quantized(matrix, "Q8_0")), tmp_path
    )

    assert tiny.read_json(folder, "config.json")["tie_word_embeddings"] is True
