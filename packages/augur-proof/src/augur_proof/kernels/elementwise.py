"""The rotation of heads and the gate of the MLP on trial."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from augur_model.ops import apply_rope, inverse_frequencies, rope_tables, rotate_half, swiglu
from augur_proof.kernels.coverage import BATCHES, HEADS, INTERMEDIATES, LENGTHS, spread
from augur_proof.kernels.op import Expected, Op, Workload
from augur_proof.kernels.values import VALUES, normal

_VALUES = ("normal", "outliers", "small", "denormal", "zero rows")


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> tuple[Expected, ...]:
    heads, cos, sin = (tensor.double() for tensor in (heads, cos, sin))
    oracle = apply_rope(heads, cos, sin)
    # The two products may cancel; each may have been rounded.
    size = (heads * cos[:, None]).abs() + (rotate_half(heads) * sin[:, None]).abs()
    return (Expected("rotated", ("batch", "head", "position", "channel"), oracle, size, size),)


def _draw_rope(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    axes, dtype = workload.axes, workload.dtype
    shape = tuple(axes[name] for name in ("batch", "heads", "length", "head_dim"))
    heads = VALUES[workload.values](shape, generator, dtype).to(dtype)
    # One table for all rows, or a table of each row's own positions.
    tables = axes["tables"]
    start = torch.randint(0, 32768 - shape[2], (tables, 1), generator=generator)
    positions = start + torch.arange(shape[2])
    return heads, *rope_tables(positions, inverse_frequencies(shape[3], 1e6), dtype)


def _rope_workloads(dtype: torch.dtype) -> tuple[Workload, ...]:
    heads = sorted({(n, d) for q, kv, d in HEADS for n in (q, kv)})
    chosen = spread(
        16,
        {
            "heads": tuple(heads),
            "length": (*LENGTHS, 4999),
            "batch": BATCHES,
            "tables": ("one", "each"),
            "layout": ("contiguous", "offset", "strided", "heads inside", "transposed"),
            "values": (*_VALUES, "large"),
        },
        lambda heads, length, batch, **_: heads[0] * heads[1] * length * batch <= 330_000,
    )
    return tuple(
        Workload(
            "apply_rope",
            dtype,
            {
                "batch": one["batch"],
                "heads": one["heads"][0],
                "length": one["length"],
                "head_dim": one["heads"][1],
                "tables": 1 if one["tables"] == "one" else one["batch"],
            },
            one["layout"],
            one["values"],
        )
        for one in chosen
    )


def _interleaved(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = heads.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    even, odd = heads[..., ::2], heads[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def _first_table(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return apply_rope(heads, cos[:1], sin[:1])


APPLY_ROPE = Op(
    name="apply_rope",
    arguments=("heads", "cos", "sin"),
    plain=apply_rope,
    expected=_rotated,
    draw=_draw_rope,
    workloads=_rope_workloads,
    mistakes={
        "neighbouring channels are paired, not the two halves": _interleaved,
        "it rotates the other way": lambda x, cos, sin: apply_rope(x, cos, -sin),
        "nothing is rotated": lambda x, *_: x,
        "sine and cosine are swapped": lambda x, cos, sin: apply_rope(x, sin, cos),
        "every row has the first row's positions": _first_table,
    },
)


def _gated(gate: Tensor, up: Tensor) -> tuple[Expected, ...]:
    gate, up = gate.double(), up.double()
    oracle = functional.silu(gate) * up
    size = oracle.abs()
    # An error in exp's argument grows with the argument: 80 at gate -80.
    summing = size * (3 + gate.abs() * torch.sigmoid(-gate))
    return (Expected("gated", ("batch", "row", "column"), oracle, size, summing),)


def _draw_swiglu(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    shape = tuple(workload.axes[name] for name in ("batch", "rows", "width"))
    dtype = workload.dtype
    if workload.values == "large":
        # Both signs of a wide gate, and products just inside the dtype.
        gate = 80 * (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1)
        up = normal(shape, generator, dtype).clamp(-7, 7) * min(torch.finfo(dtype).max / 700, 1e15)
    else:
        gate = 2 * VALUES[workload.values](shape, generator, dtype)
        up = normal(shape, generator, dtype)
    return gate.to(dtype), up.to(dtype)


def _swiglu_workloads(dtype: torch.dtype) -> tuple[Workload, ...]:
    chosen = spread(
        16,
        {
            "width": (*INTERMEDIATES, 97),
            "rows": (*LENGTHS, 4999),
            "batch": BATCHES,
            "layout": ("contiguous", "offset", "strided", "transposed"),
            "values": (*_VALUES, "large"),
        },
        lambda width, rows, batch, **_: batch * rows * width <= 500_000,
    )
    return tuple(
        Workload(
            "swiglu",
            dtype,
            {axis: one[axis] for axis in ("batch", "rows", "width")},
            one["layout"],
            one["values"],
        )
        for one in chosen
    )


SWIGLU = Op(
    name="swiglu",
    arguments=("gate", "up"),
    plain=swiglu,
    expected=_gated,
    draw=_draw_swiglu,
    workloads=_swiglu_workloads,
    own_operators=frozenset({"silu", "silu_"}),
    mistakes={
        "gate and up are swapped": lambda gate, up: swiglu(up.double(), gate.double()),
        "gelu stands for silu": lambda gate, up: functional.gelu(gate.double()) * up.double(),
        "the sigmoid stands for silu": lambda gate, up: gate.double().sigmoid() * up.double(),
        "up is left out": lambda gate, _: functional.silu(gate.double()),
    },
)
