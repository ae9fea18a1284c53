"""From a GGUF file's metadata to ``config.json`` and ``generation_config.json``."""

import math
import struct
from typing import Any

from augur_weights.errors import GGUFError
from augur_weights.gguf_file import GGUFFile

SUPPORTED_ARCHITECTURES = ("qwen2",)

# What of the architecture's own metadata is understood. A key that is not listed here may change
# what the model computes (a sliding window, pooling, a multimodal rotation), so it is refused.
_UNDERSTOOD = {
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.value_length",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "vocab_size",
}


def check_architecture(gguf: GGUFFile) -> None:
    """Refuse a file that does not hold a whole model of a supported architecture.

    Raises:
        GGUFError: another architecture, an adapter, a part of a split file, or metadata that is not
            understood.
    """
    architecture = gguf.require("general.architecture", str)
    supported = ", ".join(SUPPORTED_ARCHITECTURES)
    if architecture not in SUPPORTED_ARCHITECTURES:
        raise GGUFError(
            f"{gguf.path}: architecture '{architecture}' is not supported; supported: {supported}"
        )
    if (kind := gguf.get("general.type", str, "model")) != "model":
        raise GGUFError(f"{gguf.path}: general.type is '{kind}', expected 'model'")
    if (num_files := gguf.get("split.count", int, 1)) > 1:
        raise GGUFError(
            f"{gguf.path}: one of {num_files} files that a model was split into, which is not "
            "supported; join them first: llama-gguf-split --merge FIRST_FILE OUTPUT"
        )
    prefix = f"{architecture}."
    for key in gguf.metadata:
        if key.startswith(prefix) and key.removeprefix(prefix) not in _UNDERSTOOD:
            raise GGUFError(
                f"{gguf.path}: metadata key '{key}' = {gguf.metadata[key]!r:.60} is not supported"
            )
    scaling = gguf.get(f"{prefix}rope.scaling.type", str, "none")
    if scaling != "none":
        raise GGUFError(
            f"{gguf.path}: metadata key '{prefix}rope.scaling.type': scaling '{scaling}' is not "
            "supported, expected none"
        )


def model_config(gguf: GGUFFile) -> dict[str, Any]:
    """The file's ``config.json`` as Qwen publishes it, but for ``tie_word_embeddings``.

    Whether the embeddings are tied is not in the metadata but in the tensors. ``initializer_range``
    and ``attention_dropout`` matter to training only; they are Qwen's.

    Raises:
        GGUFError: a key is missing, is no positive number or does not fit the others.
    """
    hidden = _positive(gguf, "qwen2.embedding_length")
    heads = _positive(gguf, "qwen2.attention.head_count")
    config: dict[str, Any] = {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": _positive(gguf, "qwen2.feed_forward_length"),
        "max_position_embeddings": _positive(gguf, "qwen2.context_length"),
        "model_type": "qwen2",
        "num_attention_heads": heads,
        "num_hidden_layers": _positive(gguf, "qwen2.block_count"),
        "num_key_value_heads": _positive(gguf, "qwen2.attention.head_count_kv"),
        "rms_norm_eps": _positive_decimal(gguf, "qwen2.attention.layer_norm_rms_epsilon"),
        "rope_theta": _positive_decimal(gguf, "qwen2.rope.freq_base"),
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": _vocab_size(gguf),
        **special_token_ids(gguf),
    }
    if "qwen2.attention.key_length" in gguf.metadata:
        config["head_dim"] = _positive(gguf, "qwen2.attention.key_length")
    elif hidden % heads:
        raise GGUFError(
            f"{gguf.path}: embedding_length {hidden} is no multiple of head_count {heads}, "
            "and there is no attention.key_length"
        )
    head_dim = config.get("head_dim", hidden // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if (found := gguf.get(f"qwen2.{key}", int, head_dim)) != head_dim:
            raise GGUFError(
                f"{gguf.path}: metadata key 'qwen2.{key}' = {found} is not supported, "
                f"expected the head's size {head_dim}"
            )
    return config


def special_token_ids(gguf: GGUFFile) -> dict[str, Any]:
    """``eos_token_id``, and ``bos_token_id`` where the file names one."""
    ids = {"eos_token_id": gguf.require("tokenizer.ggml.eos_token_id", int)}
    if "tokenizer.ggml.bos_token_id" in gguf.metadata:
        ids["bos_token_id"] = gguf.require("tokenizer.ggml.bos_token_id", int)
    return ids


def generation_config(gguf: GGUFFile, end_of_text_id: int | None) -> dict[str, Any]:
    """The file's ``generation_config.json``: the special ids, and no sampling settings.

    A chat model ends its turn with the file's end token and a text with ``<|endoftext|>``; Qwen
    publishes both, in this order. A GGUF file holds no temperature or penalty, so none is made up.
    """
    config = special_token_ids(gguf)
    if end_of_text_id not in (None, config["eos_token_id"]):
        config["eos_token_id"] = [config["eos_token_id"], end_of_text_id]
    if "tokenizer.ggml.padding_token_id" in gguf.metadata:
        config["pad_token_id"] = gguf.require("tokenizer.ggml.padding_token_id", int)
    return config


def _positive(gguf: GGUFFile, key: str) -> int:
    value = gguf.require(key, int)
    if value < 1:
        raise GGUFError(f"{gguf.path}: metadata key '{key}' is {value}, expected at least 1")
    return value


def _vocab_size(gguf: GGUFFile) -> int:
    # The embedding has a row for every entry of the token list, padding included.
    listed = len(gguf.require("tokenizer.ggml.tokens", list))
    stated = gguf.get("qwen2.vocab_size", int, listed)
    if stated != listed:
        raise GGUFError(
            f"{gguf.path}: qwen2.vocab_size is {stated}, but the token list has {listed} entries"
        )
    return listed


def _positive_decimal(gguf: GGUFFile, key: str) -> float:
    """The shortest decimal that rounds to the file's float32.

    The file turns a trainer's 1e-6 into 9.999999974752427e-07, and whoever computes with Python's
    float must see the trainer's.
    """
    value = gguf.require(key, float)
    if not (math.isfinite(value) and value > 0):
        raise GGUFError(f"{gguf.path}: metadata key '{key}' is {value}, expected a positive number")
    for digits in range(1, 9):
        candidate = float(f"{value:.{digits}g}")
        if struct.pack("<f", candidate) == struct.pack("<f", value):
            return candidate
    # Nine digits tell any two float32 apart.
    return float(f"{value:.9g}")
