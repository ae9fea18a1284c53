"""Tiny Qwen2 models as GGUF files, written by the gguf library."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from augur_weights import Checkpoint
from augur_weights.gguf_import import import_gguf

HIDDEN, LAYERS, HEADS, KV_HEADS, INNER, VOCAB = 256, 2, 4, 2, 512, 288
END_OF_TEXT, TURN_START, TURN_END, TOOL_CALL, FIM = 259, 260, 261, 262, 263
CHAT_TEMPLATE = "{% for message in messages %}<|im_start|>{{ message.content }}{% endfor %}"

# Where a block of the type keeps its float16 scales; every other byte may have any value.
SCALES_AT = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}


def byte_level_alphabet() -> list[str]:
    """A printable character for each byte, as byte-level BPE spells it."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(moved)) for byte in range(256)]


def vocabulary() -> tuple[list[str], list[int], list[str]]:
    """Tokens, token types and merges: 259 byte pairs, five added tokens, padding up to VOCAB."""
    tokens = [*byte_level_alphabet(), "in", "th", "the"]
    tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "<|fim_prefix|>"]
    types = [1] * 259 + [3, 3, 3, 4, 3]
    padding = range(len(tokens), VOCAB)
    tokens += [f"[PAD{token_id}]" for token_id in padding]
    types += [5] * len(padding)
    return tokens, types, ["i n", "t h", "th e"]


def default_metadata() -> dict[str, Any]:
    tokens, types, merges = vocabulary()
    return {
        "general.type": "model",
        "qwen2.block_count": np.uint32(LAYERS),
        "qwen2.context_length": np.uint32(128),
        "qwen2.embedding_length": np.uint32(HIDDEN),
        "qwen2.feed_forward_length": np.uint32(INNER),
        "qwen2.attention.head_count": np.uint32(HEADS),
        "qwen2.attention.head_count_kv": np.uint32(KV_HEADS),
        "qwen2.rope.freq_base": np.float32(1_000_000.0),
        "qwen2.attention.layer_norm_rms_epsilon": np.float32(1e-6),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": np.uint32(TURN_END),
        "tokenizer.ggml.padding_token_id": np.uint32(END_OF_TEXT),
        "tokenizer.ggml.bos_token_id": np.uint32(END_OF_TEXT),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def random_blocks(rng: np.random.Generator, type_name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Any bytes with moderate scales: a valid tensor of a type that gguf cannot quantize to."""
    block_elements, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[type_name]]
    blocks = rng.integers(0, 256, (shape[0], shape[1] // block_elements, block_bytes), np.uint8)
    for at in SCALES_AT[type_name]:
        scales = rng.uniform(0.001, 0.01, blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(shape[0], -1)


def stored(rng: np.random.Generator, type_name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A random matrix as the type stores it."""
    if type_name in SCALES_AT:
        return random_blocks(rng, type_name, shape)
    values = rng.standard_normal(shape, np.float32) * np.float32(0.05)
    return gguf.quants.quantize(values, gguf.GGMLQuantizationType[type_name])


@dataclass
class TinyModel:
    """What goes into the file; change it before ``write``.

    ``tensors`` maps a GGUF name to the stored array and the type's name.
    """

    architecture: str = "qwen2"
    metadata: dict[str, Any] = field(default_factory=default_metadata)
    tensors: dict[str, tuple[np.ndarray, str]] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = gguf.GGUFWriter(path, self.architecture)
        for key, value in self.metadata.items():
            _add(writer, key, value)
        for name, (array, type_name) in self.tensors.items():
            writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType[type_name])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    kinds = gguf.GGUFValueType
    numbers = {np.uint32: kinds.UINT32, np.float32: kinds.FLOAT32, bool: kinds.BOOL}
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_key_value(
            key, value.item() if hasattr(value, "item") else value, numbers[type(value)]
        )


def tiny_model(type_name: str = "F32", seed: int = 0) -> TinyModel:
    """A model whose matrices are all of one type, without ``output.weight``."""
    rng = np.random.default_rng(seed)
    head_dim = HIDDEN // HEADS
    matrices = {
        "attn_q": (HIDDEN, HIDDEN),
        "attn_k": (KV_HEADS * head_dim, HIDDEN),
        "attn_v": (KV_HEADS * head_dim, HIDDEN),
        "attn_output": (HIDDEN, HIDDEN),
        "ffn_gate": (INNER, HIDDEN),
        "ffn_up": (INNER, HIDDEN),
        "ffn_down": (HIDDEN, INNER),
    }
    vectors = {
        "attn_norm.weight": HIDDEN,
        "ffn_norm.weight": HIDDEN,
        "attn_q.bias": HIDDEN,
        "attn_k.bias": KV_HEADS * head_dim,
        "attn_v.bias": KV_HEADS * head_dim,
    }
    tensors = {"token_embd.weight": (stored(rng, type_name, (VOCAB, HIDDEN)), type_name)}
    for layer in range(LAYERS):
        for name, shape in matrices.items():
            tensors[f"blk.{layer}.{name}.weight"] = (stored(rng, type_name, shape), type_name)
        for name, length in vectors.items():
            tensors[f"blk.{layer}.{name}"] = (rng.standard_normal(length, np.float32), "F32")
    tensors["output_norm.weight"] = (rng.standard_normal(HIDDEN, np.float32), "F32")
    return TinyModel(tensors=tensors)


def imported(model: TinyModel, tmp_path: Path) -> Path:
    """The checkpoint folder that becomes of the model."""
    return import_gguf(model.write(tmp_path / "tiny.gguf"), cache_dir=tmp_path / "cache")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def checkpoint_tensors(folder: Path) -> dict[str, torch.Tensor]:
    checkpoint = Checkpoint(folder)
    return {name: checkpoint.tensor(name) for name in checkpoint.names}


def expected_bfloat16(stored: tuple[Any, str]) -> torch.Tensor:
    """What the gguf library makes of a stored array, rounded to bfloat16."""
    array, type_name = stored
    values = gguf.quants.dequantize(array.copy(), gguf.GGMLQuantizationType[type_name])
    return torch.from_numpy(values).to(torch.bfloat16)
