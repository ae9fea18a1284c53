"""RMSNorm on trial, alone and with the residual added before it."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from augur_model.ops import rms_norm
from augur_proof.kernels.coverage import BATCHES, LENGTHS, WIDTHS, spread
from augur_proof.kernels.op import Expected, Op, Workload
from augur_proof.kernels.values import VALUES, normal

_AXES = ("batch", "row", "column")
_HEAD_DIMS = (64, 128)
"""Qwen3 norms its queries and keys, a head a row."""


def add_rms_norm(
    hidden_states: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """The plain op: the sum in the dtype of both, and its norm; `(normed, summed)`."""
    summed = hidden_states + residual
    return rms_norm(summed, weight, eps), summed


def _scale(values: Tensor, eps: float) -> Tensor:
    return (values.pow(2).mean(-1, keepdim=True) + eps).rsqrt()


def _summing(width: int) -> float:
    """Float32's part of the error, relative to the output.

    Rounding the k-th of n partial sums of squares errs by 0.2 epsilon of k/n of the sum: 0.115
    sqrt(n) in all where they are added one after another, and the root halves it. Square, root,
    and two products add about 2.
    """
    return 2 + 0.06 * math.sqrt(width)


def _expected(hidden_states: Tensor, weight: Tensor, eps: float) -> tuple[Expected, ...]:
    values = hidden_states.double()
    normed = values * _scale(values, eps) * weight.double()
    size = normed.abs()
    return (Expected("normed", _AXES, normed, size, size * _summing(values.shape[-1])),)


def _expected_after_adding(
    hidden_states: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Expected, ...]:
    summed = hidden_states.double() + residual.double()
    # Where the two cancel, the error is that of the sum's rounding, and the sum is small.
    size = summed.abs()
    scale = _scale(summed, eps) * weight.double()
    normed = summed * scale
    summing = normed.abs() * _summing(summed.shape[-1])
    return (
        Expected("normed", _AXES, normed, normed.abs(), summing),
        Expected("summed", _AXES, summed, size, size, equal=True),
    )


def _draw(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    shape = tuple(workload.axes[name] for name in ("batch", "rows", "width"))
    dtype = workload.dtype
    values = VALUES[workload.values](shape, generator, dtype).to(dtype)
    weight = (1 + 0.5 * normal(shape[-1:], generator, dtype)).to(dtype)
    return values, weight, workload.scalars["eps"]


def _draw_both(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    values, weight, eps = _draw(workload, generator)
    residual, _, _ = _draw(replace(workload, values="normal"), generator)
    # Of the size of what it is added to, so that neither drowns and the sum does not overflow.
    residual = residual.double().clamp(-1.5, 1.5) * values.double().abs().mean()
    return values / 2, (residual / 2).to(values.dtype), weight, eps


def _workloads(name: str) -> Any:
    def listed(dtype: torch.dtype) -> tuple[Workload, ...]:
        chosen = spread(
            16,
            {
                "width": WIDTHS + _HEAD_DIMS,
                "rows": (*LENGTHS, 5003),
                "batch": BATCHES,
                "layout": ("contiguous", "offset", "strided", "transposed"),
                "values": tuple(VALUES),
                "eps": (1e-6, 1e-5, 1e-12, 1e-2),
            },
            lambda width, rows, batch, **_: batch * rows * width <= 330_000,
        )
        return tuple(
            Workload(
                name,
                dtype,
                {axis: one[axis] for axis in ("batch", "rows", "width")},
                one["layout"],
                one["values"],
                {"eps": one["eps"]},
            )
            for one in chosen
        )

    return listed


def _weight_after(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    values = hidden_states.double()
    return weight * (values * _scale(values, eps)).to(hidden_states.dtype)


def _weight_before(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    values = hidden_states.double()
    return (values * _scale(values, eps) * weight.double()).to(hidden_states.dtype)


def _mean_square(hidden_states: Tensor) -> Tensor:
    return hidden_states.double().pow(2).mean(-1, keepdim=True)


def _in_its_dtype(hidden_states: Tensor, weight: Tensor, eps: float) -> Tensor:
    mean = hidden_states.pow(2).mean(-1, keepdim=True)
    return weight * (hidden_states * torch.rsqrt(mean + eps))


MISTAKES = {
    "epsilon is added outside the root": lambda x, w, eps: (
        x.double() / (_mean_square(x).sqrt() + eps) * w.double()
    ),
    "there is no epsilon": lambda x, w, _: x.double() * _mean_square(x).rsqrt() * w.double(),
    "epsilon is another number, 1e-5": lambda x, w, _: x.double() * _scale(x.double(), 1e-5) * w,
    "epsilon is another number, 1e-6": lambda x, w, _: x.double() * _scale(x.double(), 1e-6) * w,
    "it is computed wholly in the input dtype": _in_its_dtype,
    "the weight is left out": lambda x, _, eps: x.double() * _scale(x.double(), eps),
    "1 is added to the weight": lambda x, w, eps: (
        x.double() * _scale(x.double(), eps) * (1 + w.double())
    ),
    "squares are summed, not averaged": lambda x, w, eps: (
        x.double() * (x.double().pow(2).sum(-1, keepdim=True) + eps).rsqrt() * w.double()
    ),
    "the mean is subtracted, as in LayerNorm": lambda x, w, eps: _weight_before(
        x.double() - x.double().mean(-1, keepdim=True), w, eps
    ),
}

RMS_NORM = Op(
    name="rms_norm",
    arguments=("hidden_states", "weight", "eps"),
    plain=rms_norm,
    expected=_expected,
    draw=_draw,
    workloads=_workloads("rms_norm"),
    own_operators=frozenset({"rms_norm", "_fused_rms_norm", "native_layer_norm"}),
    semantics={
        "weight after rounding back": _weight_after,
        "weight before rounding back": _weight_before,
    },
    mistakes=MISTAKES,
)


def _adding(formula: Any) -> Any:
    return lambda x, r, w, eps: formula(x + r, w, eps)


ADD_RMS_NORM = Op(
    name="add_rms_norm",
    arguments=("hidden_states", "residual", "weight", "eps"),
    plain=add_rms_norm,
    expected=_expected_after_adding,
    draw=_draw_both,
    workloads=_workloads("add_rms_norm"),
    due=lambda x, *_: ((x.shape, x.dtype),) * 2,
    own_operators=RMS_NORM.own_operators,
    semantics={name: _adding(formula) for name, formula in RMS_NORM.semantics.items()},
    mistakes={
        "the residual is left out": lambda x, _, w, eps: _weight_before(x, w, eps),
        **{name: _adding(formula) for name, formula in MISTAKES.items()},
    },
)
