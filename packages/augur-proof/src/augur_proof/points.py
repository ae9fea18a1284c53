"""Where two networks are compared: the output of every module, and of every op inside one."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Point:
    """A place in the network.

    Attributes:
        module: the module's name, such as "model.layers.7.mlp.down_proj".
        part: what inside that module, such as "attention"; None for its output.
    """

    module: str
    part: str | None = None

    def __str__(self) -> str:
        return self.module if self.part is None else f"{self.module}:{self.part}"


QUERY, KEY = "apply_rope(query)", "apply_rope(key)"
CACHED_KEYS, CACHED_VALUES = "cache(keys)", "cache(values)"

# Some results are no module's output, but all of what the next module is given.
_MADE_FOR = {
    "self_attn.o_proj": ("self_attn", "attention"),
    "mlp.down_proj": ("mlp", "swiglu"),
    "post_attention_layernorm": ("", "residual"),
}


def input_point(module: str) -> Point | None:
    """The point that a module's input stands for: the attention's output for o_proj, and so on."""
    for consumer, (maker, part) in _MADE_FOR.items():
        if module.endswith(f".{consumer}"):
            layer = module.removesuffix(f".{consumer}")
            return Point(f"{layer}.{maker}" if maker else layer, part)
    return None


def output_points(module: str) -> tuple[Point, ...]:
    """The points of a module's output; the rotary embedding gives two tensors."""
    if module.endswith("rotary_emb"):
        return Point(module, "cos"), Point(module, "sin")
    return (Point(module),)


def compared_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules whose output is compared: all but the network itself and mere lists."""
    for name, module in model.named_modules():
        if name not in ("", "model") and not isinstance(module, nn.ModuleList):
            yield name, module
