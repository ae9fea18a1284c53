"""Which tensor of a GGUF file is which tensor of a checkpoint."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from augur_weights.gguf_family import HEAD, GGUFFamily
from augur_weights.gguf_file import GGUFFile, TensorInfo


def match_tensors(
    gguf: GGUFFile, family: GGUFFamily, config: dict[str, Any]
) -> dict[str, TensorInfo]:
    """The file's tensors under their checkpoint names, in a checkpoint's order.

    All of a model with this ``config.json``, ``lm_head.weight`` only where the file has it.

    Raises:
        GGUFError: a tensor is missing, has another shape, or has no place in the model.
    """
    matched: dict[str, TensorInfo] = {}
    for name, gguf_name, shape in _expected(family, config):
        tensor = gguf.tensors.get(gguf_name)
        if tensor is None:
            if name == HEAD:
                continue
            raise gguf.error(f"tensor '{gguf_name}' ({name}) is missing")
        if tensor.shape != shape:
            raise gguf.error(
                f"tensor '{gguf_name}' ({name}) has shape {list(tensor.shape)}, "
                f"expected {list(shape)}"
            )
        matched[name] = tensor
    used = {tensor.name for tensor in matched.values()}
    if unused := [name for name in gguf.tensors if name not in used]:
        raise gguf.error(
            f"{len(unused)} tensors have no place in a {family.architecture} model of "
            f"{config['num_hidden_layers']} layers: {', '.join(unused[:5])}"
            + (", ..." if len(unused) > 5 else "")
        )
    return matched


def _expected(
    family: GGUFFamily, config: dict[str, Any]
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Checkpoint name, GGUF name and shape of every tensor."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim", hidden // heads)
    sizes = {
        "hidden": hidden,
        "queries": heads * head_dim,
        "keys": config["num_key_value_heads"] * head_dim,
        "inner": config["intermediate_size"],
        "vocab": config["vocab_size"],
    }
    embedding, *rest = family.outer_tensors
    layers = (  # one by one: the file may claim any number
        (f"model.layers.{index}.{name}", f"blk.{index}.{gguf_name}", shape)
        for index in range(config["num_hidden_layers"])
        for name, gguf_name, shape in family.layer_tensors
    )
    for name, gguf_name, shape in chain([embedding], layers, rest):
        yield name, gguf_name, tuple(sizes[size] for size in shape)
