"""What a network computes on the way, kept by name."""

from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor, nn

from augur_proof.points import (
    CACHED_KEYS,
    CACHED_VALUES,
    KEY,
    QUERY,
    Point,
    compared_modules,
    input_point,
    output_points,
)


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


class Recorder:
    """Keeps what a model computes while the block runs.

    Args:
        model: modules named as transformers names them; changed in no way but hooks, which are
            taken off at the end.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names: dict[nn.Module, str] = {}
        self._values: dict[Point, Tensor] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        for name, module in compared_modules(self._model):
            self._names[module] = name
            self._handles.append(module.register_forward_pre_hook(self._keep_input))
            self._handles.append(module.register_forward_hook(self._keep_output))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def take(self) -> dict[Point, Tensor]:
        """All that was kept since the last time."""
        values, self._values = self._values, {}
        return values

    def keep_attention_inputs(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor
    ) -> None:
        """Called by the attention function: what it is given, `[batch, heads, length, head_dim]`.

        Args:
            module: the attention module.
            query: of the new tokens, rotated.
            key: of all tokens, rotated.
            value: of all tokens.
        """
        name = self._names[module]
        self._values[Point(name, QUERY)] = query
        self._values[Point(name, KEY)] = key[:, :, key.shape[2] - query.shape[2] :]
        self._values[Point(name, CACHED_KEYS)] = key
        self._values[Point(name, CACHED_VALUES)] = value

    def _keep_input(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        point = input_point(self._names[module])
        if point is not None:
            self._values[point] = args[0]

    def _keep_output(self, module: nn.Module, _args: Any, output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        # Attention also gives its weights, which are not asked for.
        for point, value in zip(output_points(self._names[module]), outputs, strict=False):
            self._values[point] = value
