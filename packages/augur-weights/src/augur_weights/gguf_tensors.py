"""Which tensor of a GGUF file is which tensor of a Qwen2 checkpoint."""

from collections.abc import Iterator
from typing import Any

from augur_weights.errors import GGUFError
from augur_weights.gguf_file import GGUFFile, TensorInfo

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
_GGUF_HEAD = "output.weight"


def match_tensors(gguf: GGUFFile, config: dict[str, Any]) -> dict[str, TensorInfo]:
    """The file's tensors under their checkpoint names, in a checkpoint's order.

    Query and key rows keep their order: llama.cpp rotates Qwen2 as Qwen does, in two halves.

    Args:
        gguf: the file.
        config: its ``config.json``, from which names and shapes follow.

    Returns:
        Every tensor of the model; ``lm_head.weight`` only where the file has ``output.weight``.

    Raises:
        GGUFError: a tensor is missing, has another shape, or has no place in the model.
    """
    matched: dict[str, TensorInfo] = {}
    for name, gguf_name, shape in _expected(config):
        tensor = gguf.tensors.get(gguf_name)
        if tensor is None:
            if gguf_name == _GGUF_HEAD:
                continue
            raise GGUFError(f"{gguf.path}: tensor '{gguf_name}' ({name}) is missing")
        if tensor.shape != shape:
            raise GGUFError(
                f"{gguf.path}: tensor '{gguf_name}' ({name}) has shape {list(tensor.shape)}, "
                f"expected {list(shape)}"
            )
        matched[name] = tensor
    used = {tensor.name for tensor in matched.values()}
    if unused := [name for name in gguf.tensors if name not in used]:
        raise GGUFError(
            f"{gguf.path}: {len(unused)} tensors have no place in a Qwen2 model of "
            f"{config['num_hidden_layers']} layers: {', '.join(unused[:5])}"
            + (", ..." if len(unused) > 5 else "")
        )
    return matched


def _expected(config: dict[str, Any]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Checkpoint name, GGUF name and shape of every tensor."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim", hidden // heads)
    queries = heads * head_dim
    keys = config["num_key_value_heads"] * head_dim
    inner, vocab = config["intermediate_size"], config["vocab_size"]
    layer: list[tuple[str, str, tuple[int, ...]]] = [
        ("input_layernorm.weight", "attn_norm.weight", (hidden,)),
        ("self_attn.q_proj.weight", "attn_q.weight", (queries, hidden)),
        ("self_attn.q_proj.bias", "attn_q.bias", (queries,)),
        ("self_attn.k_proj.weight", "attn_k.weight", (keys, hidden)),
        ("self_attn.k_proj.bias", "attn_k.bias", (keys,)),
        ("self_attn.v_proj.weight", "attn_v.weight", (keys, hidden)),
        ("self_attn.v_proj.bias", "attn_v.bias", (keys,)),
        ("self_attn.o_proj.weight", "attn_output.weight", (hidden, queries)),
        ("post_attention_layernorm.weight", "ffn_norm.weight", (hidden,)),
        ("mlp.gate_proj.weight", "ffn_gate.weight", (inner, hidden)),
        ("mlp.up_proj.weight", "ffn_up.weight", (inner, hidden)),
        ("mlp.down_proj.weight", "ffn_down.weight", (hidden, inner)),
    ]
    yield EMBEDDING, "token_embd.weight", (vocab, hidden)
    for index in range(config["num_hidden_layers"]):
        for name, gguf_name, shape in layer:
            yield f"model.layers.{index}.{name}", f"blk.{index}.{gguf_name}", shape
    yield "model.norm.weight", "output_norm.weight", (hidden,)
    yield HEAD, _GGUF_HEAD, (vocab, hidden)
