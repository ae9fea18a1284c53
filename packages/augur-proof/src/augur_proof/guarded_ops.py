"""A table of ops on trial, watched: one that breaks is told by its name and its place.

Without this an op that gives something else than it should is found by whatever is computed next,
far from the fault and in words of its own.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import torch
from torch import Tensor, nn

from augur_model import Ops, QwenForCausalLM
from augur_proof.errors import OpFailedError


def guard_ops(model: QwenForCausalLM, ops: Ops) -> None:
    """Let a model compute with a table, each result looked at for its shape, dtype and device.

    An op that fails this raises `OpFailedError`; the model is of no use after that.

    Args:
        model: changed for good: it is given the table, and hooks that keep where it is.
        ops: on trial.
    """
    names = {module: name for name, module in model.named_modules()}
    running: list[str] = []

    def enter(module: nn.Module, _args: Any) -> None:
        running.append(names[module])

    def leave(*_: Any) -> None:
        running.pop()

    for module in names:
        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)

    def guarded(op: str, expected: Callable[..., tuple[Tensor, tuple[int, ...]]]) -> Any:
        compute = getattr(ops, op)

        @wraps(compute)  # what it stands for is asked by those who judge it
        def checked(*args: Any) -> Tensor:
            where = f"{running[-1]}: op {op}"
            try:
                found = compute(*args)
            except (MemoryError, torch.OutOfMemoryError):
                raise
            except Exception as error:  # whatever the op does when it is run
                raise OpFailedError(f"{where} raised {type(error).__name__}: {error}") from error
            wanted = _kind(*expected(*args))
            given = type(found).__name__
            if isinstance(found, Tensor):
                given = _kind(found, found.shape)
            if given != wanted:
                raise OpFailedError(f"{where} gave {given}, expected {wanted}")
            return cast("Tensor", found)

        return checked

    model.ops = Ops(
        linear=guarded("linear", lambda x, weight, _bias: (x, (*x.shape[:-1], weight.shape[0]))),
        rms_norm=guarded("rms_norm", lambda x, *_: (x, x.shape)),
        apply_rope=guarded("apply_rope", lambda heads, *_: (heads, heads.shape)),
        attention=guarded("attention", lambda query, *_: (query, query.shape)),
        swiglu=guarded("swiglu", lambda gate, _up: (gate, gate.shape)),
        paged_attention=guarded("paged_attention", lambda query, *_: (query, query.shape)),
    )


def _kind(like: Tensor, shape: tuple[int, ...]) -> str:
    return f"{list(shape)} {str(like.dtype).removeprefix('torch.')} on {like.device}"
