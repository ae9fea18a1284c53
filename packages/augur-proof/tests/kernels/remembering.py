"""An op that computes nothing twice, so that many kernels are tried on one set of inputs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from augur_proof.kernels import Op, Workload


def remembering(op: Op) -> Op:
    """The op, for one workload and one seed.

    What is drawn from a generator in the same state is the same object, and what is computed from
    the same objects is remembered. Only the kit may compute with it: a kernel's own inputs are
    copies that change.
    """
    drawn: dict[bytes, tuple[Any, torch.Tensor]] = {}
    computed: dict[tuple[Any, ...], Any] = {}

    def draw(workload: Workload, generator: torch.Generator) -> Any:
        before = bytes(generator.get_state().tolist())
        if before not in drawn:
            drawn[before] = (op.draw(workload, generator), generator.get_state())
        inputs, after = drawn[before]
        generator.set_state(after)
        return inputs

    def once(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
        def remembered(*inputs: Any) -> Any:
            key = (name, *map(id, inputs))  # of `drawn`, which keeps them
            if key not in computed:
                computed[key] = compute(*inputs)
            return computed[key]

        return remembered

    def all_once(kind: str, formulas: Any) -> dict[str, Callable[..., Any]]:
        return {name: once(f"{kind}: {name}", formula) for name, formula in formulas.items()}

    return replace(
        op,
        draw=draw,
        plain=once("plain", op.plain),
        expected=once("expected", op.expected),
        semantics=all_once("semantics", op.semantics),
        mistakes=all_once("mistake", op.mistakes),
    )
