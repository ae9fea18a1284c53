"""From a GGUF file's metadata to ``config.json``."""

import math
import struct
from typing import Any

from augur_weights.gguf_family import GGUFFamily
from augur_weights.gguf_file import GGUFFile


def model_config(gguf: GGUFFile, family: GGUFFamily) -> dict[str, Any]:
    """The file's ``config.json`` as it is published, but for ``tie_word_embeddings``.

    Whether the embeddings are tied is not in the metadata but in the tensors.

    Raises:
        GGUFError: a key is missing, is no positive number or does not fit the others.
    """
    prefix = f"{family.architecture}."
    hidden = _positive(gguf, f"{prefix}embedding_length")
    heads = _positive(gguf, f"{prefix}attention.head_count")
    config: dict[str, Any] = {
        **family.config,
        "hidden_size": hidden,
        "intermediate_size": _positive(gguf, f"{prefix}feed_forward_length"),
        "max_position_embeddings": _positive(gguf, f"{prefix}context_length"),
        "num_attention_heads": heads,
        "num_hidden_layers": _positive(gguf, f"{prefix}block_count"),
        "num_key_value_heads": _positive(gguf, f"{prefix}attention.head_count_kv"),
        "rms_norm_eps": decimal(gguf, f"{prefix}attention.layer_norm_rms_epsilon"),
        "rope_theta": decimal(gguf, f"{prefix}rope.freq_base"),
        "vocab_size": _vocab_size(gguf, f"{prefix}vocab_size"),
        **special_token_ids(gguf),
    }
    if f"{prefix}attention.key_length" in gguf.metadata:
        config["head_dim"] = _positive(gguf, f"{prefix}attention.key_length")
    elif hidden % heads:
        fault = f"embedding_length {hidden} is no multiple of head_count {heads}"
        raise gguf.error(f"{fault}, and there is no attention.key_length")
    head_dim = config.get("head_dim", hidden // heads)
    for key in (f"{prefix}attention.value_length", f"{prefix}rope.dimension_count"):
        if (found := gguf.get(key, int, head_dim)) != head_dim:
            fault = f"metadata key '{key}' = {found} is not supported"
            raise gguf.error(f"{fault}, expected the head's size {head_dim}")
    return config


def special_token_ids(gguf: GGUFFile) -> dict[str, Any]:
    """``eos_token_id``, and ``bos_token_id`` where the file names one."""
    ids = {"eos_token_id": token_id(gguf, "eos_token_id")}
    if "tokenizer.ggml.bos_token_id" in gguf.metadata:
        ids["bos_token_id"] = token_id(gguf, "bos_token_id")
    return ids


def token_id(gguf: GGUFFile, name: str) -> int:
    """The special id of that name, which must be there.

    Raises:
        GGUFError: it is no token of the file's list.
    """
    key = f"tokenizer.ggml.{name}"
    found, size = gguf.require(key, int), len(gguf.require("tokenizer.ggml.tokens", list))
    if not 0 <= found < size:
        raise gguf.error(f"{key} is {found}, expected a token's id, below {size}")
    return found


def decimal(gguf: GGUFFile, key: str, *, or_zero: bool = False) -> float:
    """The shortest decimal that rounds to the file's float32, of a key that must be there.

    The file turns a trainer's 1e-6 into 9.999999974752427e-07, and whoever computes with Python's
    float must see the trainer's.

    Raises:
        GGUFError: it is not positive (nor zero, if it may be), or not finite.
    """
    value = gguf.require(key, float)
    if not (math.isfinite(value) and (value > 0 or (or_zero and value == 0))):
        expected = "0 or a positive number" if or_zero else "a positive number"
        raise gguf.error(f"metadata key '{key}' is {value}, expected {expected}")
    for digits in range(1, 9):
        candidate = float(f"{value:.{digits}g}")
        if struct.pack("<f", candidate) == struct.pack("<f", value):
            return candidate
    # Nine digits tell any two float32 apart.
    return float(f"{value:.9g}")


def _positive(gguf: GGUFFile, key: str) -> int:
    if (value := gguf.require(key, int)) < 1:
        raise gguf.error(f"metadata key '{key}' is {value}, expected at least 1")
    return value


def _vocab_size(gguf: GGUFFile, key: str) -> int:
    # The embedding has a row for every entry of the token list, padding included.
    listed = len(gguf.require("tokenizer.ggml.tokens", list))
    if (stated := gguf.get(key, int, listed)) != listed:
        raise gguf.error(f"{key} is {stated}, but the token list has {listed} entries")
    return listed
