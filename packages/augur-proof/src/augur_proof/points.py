"""Where two networks are compared: the output of every module, and of every op inside one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


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


@dataclass(frozen=True)
class Pass:
    """One forward pass of the reference.

    Attributes:
        label: for a person, such as "decode step 1".
        token_ids: what was fed.
        past_length: tokens that were fed before.
        values: what was computed at each point.
    """

    label: str
    token_ids: list[int]
    past_length: int
    values: dict[Point, Tensor]


QUERY, KEY = "apply_rope(query)", "apply_rope(key)"
CACHED_KEYS, CACHED_VALUES = "cache(keys)", "cache(values)"

# Some results are no module's output, but all of what the next module is given.
_MADE_FOR = {
    "self_attn.o_proj": (".self_attn", "attention"),
    "mlp.down_proj": (".mlp", "swiglu"),
    "post_attention_layernorm": ("", "residual"),
}

See = Callable[[nn.Module, Point, Tensor], Tensor]
"""A module that runs, a point and what was computed there -> what takes its place."""


@contextmanager
def watched(model: nn.Module, see: See) -> Iterator[dict[nn.Module, str]]:
    """Show what every module computes while the block runs: all but the network itself.

    Args:
        model: modules named as transformers names them; changed in no way but hooks.
        see: shown each point of the modules. What goes through an op alone it is not shown.

    Yields:
        the modules' names.
    """
    names = {
        module: name
        for name, module in model.named_modules()
        if name not in ("", "model") and not isinstance(module, nn.ModuleList)
    }

    def before(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        for consumer, (maker, part) in _MADE_FOR.items():
            if names[module].endswith(f".{consumer}"):
                layer = names[module].removesuffix(f".{consumer}")
                return see(module, Point(layer + maker, part), args[0]), *args[1:]
        return args

    def after(module: nn.Module, _args: Any, output: Any) -> Any:
        name = names[module]
        if name.endswith("rotary_emb"):
            cos, sin = output
            return see(module, Point(name, "cos"), cos), see(module, Point(name, "sin"), sin)
        if isinstance(output, tuple):  # transformers' attention also gives its weights
            return see(module, Point(name), output[0]), *output[1:]
        return see(module, Point(name), output)

    with ExitStack() as hooks:
        for module in names:
            for handle in (
                module.register_forward_pre_hook(before),
                module.register_forward_hook(after),
            ):
                hooks.callback(handle.remove)
        yield names
