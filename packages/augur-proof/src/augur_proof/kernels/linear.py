"""Matrix products on trial: the float linear, and weight-only int8 and int4."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from augur_proof.kernels.coverage import INTERMEDIATES, VOCABULARIES, WIDTHS, spread
from augur_proof.kernels.op import Due, Expected, Op, Workload
from augur_proof.kernels.values import VALUES, normal

INT4_GROUP = 32
"""Neighbouring weights of a row that share a scale in int4."""


def dequantise_int8(weight: Tensor, scales: Tensor) -> Tensor:
    """`[out, in]` int8 and `[out]` -> `[out, in]` in the dtype of `scales`."""
    return weight * scales[:, None]


def dequantise_int4(packed: Tensor, scales: Tensor) -> Tensor:
    """`[out, in / 2]` uint8 and `[out, in / 32]` -> `[out, in]` in the dtype of `scales`.

    A byte holds two neighbours, the first in its low half; 8 stands for zero.
    """
    nibbles = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)
    return (nibbles.to(scales.dtype) - 8) * scales.repeat_interleave(INT4_GROUP, dim=1)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Expected, ...]:
    """Everything in float64.

    Float32 adds n products of random sign one after another: partial sums grow like a walk, and
    rounding each errs by 0.2 sqrt(n / 2) epsilon of the root of the sum of squares.
    """
    product = functional.linear(x, weight)
    added = torch.zeros_like(product) if bias is None else bias.double().expand_as(product)
    oracle = product + added
    # The product may have been rounded before the bias, which may cancel it, was added.
    size = oracle.abs() if bias is None else product.abs() + added.abs()
    walk = functional.linear(x.square(), weight.square()).sqrt()
    summing = size + 0.15 * x.shape[-1] ** 0.5 * (walk + added.abs())
    return (Expected("product", ("batch", "row", "column"), oracle, size, summing),)


def _expected(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Expected, ...]:
    return _product(x.double(), weight.double(), bias)


def plain_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The bias added to the rounded product, as torch does where it has no fused form."""
    product = functional.linear(x, weight)
    return product if bias is None else product + bias


def _due(x: Tensor, weight: Tensor, _: Any) -> tuple[Due, ...]:
    return ((torch.Size((*x.shape[:-1], weight.shape[0])), x.dtype),)


def _flops(workload: Workload) -> float:
    axes = workload.axes
    return 2.0 * axes["batch"] * axes["rows"] * axes["in"] * axes["out"]


def _draw(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    axes, dtype = workload.axes, workload.dtype
    x = VALUES[workload.values]((axes["batch"], axes["rows"], axes["in"]), generator, dtype)
    weight = normal((axes["out"], axes["in"]), generator, dtype) * axes["in"] ** -0.5
    bias = normal((axes["out"],), generator, dtype) if axes["bias"] else None
    return x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)


def _fits(rows: int, width: int, out: int, batch: int = 1, **_: Any) -> bool:
    return width * out <= 10_000_000 and batch * rows * width * out <= 10_000_000


_VALUES = ("normal", "outliers", "small", "zero rows")


def _workloads(dtype: torch.dtype) -> tuple[Workload, ...]:
    chosen = spread(
        14,
        {
            "width": (64, *WIDTHS, *INTERMEDIATES),
            # Down to two columns, so that every inner size of the family fits.
            "out": (2, 17, 128, 512, 896, *VOCABULARIES),
            "rows": (1, 2, 15, 17, 99, 257),
            "batch": (1, 2, 5),
            "layout": ("contiguous", "offset", "strided", "transposed"),
            "values": _VALUES,
            "bias": (0, 1),
        },
        lambda **one: _fits(**one) and one["batch"] * one["rows"] * one["out"] >= 30,
    )
    return tuple(
        Workload(
            "linear",
            dtype,
            {"batch": o["batch"], "rows": o["rows"], "in": o["width"], "out": o["out"]}
            | {"bias": o["bias"]},
            o["layout"],
            o["values"],
        )
        for o in chosen
    )


LINEAR = Op(
    name="linear",
    arguments=("x", "weight", "bias"),
    plain=plain_linear,
    expected=_expected,
    draw=_draw,
    workloads=_workloads,
    due=_due,
    flops=_flops,
    own_operators=frozenset({"linear", "mm", "addmm", "matmul", "bmm", "_addmm_activation"}),
    mistakes={
        "the bias is left out": lambda x, w, _: functional.linear(x.double(), w.double()),
        "the bias is added twice": lambda x, w, b: functional.linear(
            x.double(), w.double(), None if b is None else 2 * b.double()
        ),
        "the last product of each sum is left out": lambda x, w, b: functional.linear(
            x[..., :-1].double(), w[..., :-1].double(), None if b is None else b.double()
        ),
        "the weight is rounded to bfloat16": lambda x, w, b: functional.linear(
            x.double(), w.bfloat16().double(), None if b is None else b.double()
        ),
    },
)


def int8_linear(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """x `[batch, rows, in]`, codes, scales float32 -> `[batch, rows, out]` in the dtype of x.

    The plain op rounds the weights to the dtype of x and multiplies there, as kernels do that feed
    tensor cores; those that keep float32 inside err less.
    """
    return functional.linear(x, dequantise_int8(codes, scales).to(x.dtype))


def int4_linear(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """As `int8_linear`, of four bits."""
    return functional.linear(x, dequantise_int4(codes, scales).to(x.dtype))


def _quantised(name: str, bits: int) -> Op:
    dequantise = dequantise_int8 if bits == 8 else dequantise_int4

    def expected(x: Tensor, codes: Tensor, scales: Tensor) -> tuple[Expected, ...]:
        weight = dequantise(codes, scales.double())
        (product,) = _product(x.double(), weight, None)
        # A weight rounded to the dtype errs as a product's rounding does.
        walk = functional.linear(x.double().square(), weight.square()).sqrt()
        return (
            Expected(
                product.name,
                product.axes,
                product.oracle,
                product.magnitude + walk,
                product.summing,
            ),
        )

    def draw(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
        axes = workload.axes
        shape = (axes["batch"], axes["rows"], axes["in"])
        x = VALUES[workload.values](shape, generator, workload.dtype).to(workload.dtype)
        out, width = axes["out"], axes["in"]
        scales: tuple[int, ...] = (out,) if bits == 8 else (out, width // INT4_GROUP)
        if bits == 8:
            codes = torch.randint(-127, 128, (out, width), generator=generator, dtype=torch.int8)
        else:
            size = (out, width // 2)
            codes = torch.randint(0, 256, size, generator=generator, dtype=torch.uint8)
        step = axes["in"] ** -0.5 / 2 ** (bits - 1)
        drawn = step * (0.5 + torch.rand(scales, generator=generator, dtype=torch.float64))
        return x, codes, drawn.float()

    def workloads(dtype: torch.dtype) -> tuple[Workload, ...]:
        chosen = spread(
            10,
            {
                "width": (64, *WIDTHS, *INTERMEDIATES),
                "out": (17, 128, 257, 896),
                "rows": (1, 2, 5),
                "layout": ("contiguous", "offset", "strided", "transposed"),
                "values": _VALUES,
            },
            lambda **one: _fits(**one) and one["rows"] * one["out"] >= 30,
        )
        return tuple(
            Workload(
                name,
                dtype,
                {"batch": 1, "rows": one["rows"], "in": one["width"], "out": one["out"]},
                one["layout"],
                one["values"],
            )
            for one in chosen
        )

    return Op(
        name=name,
        arguments=("x", "codes", "scales"),
        plain=int8_linear if bits == 8 else int4_linear,
        expected=expected,
        draw=draw,
        workloads=workloads,
        due=_due,
        flops=_flops,
        own_operators=LINEAR.own_operators,
        mistakes={
            "the scales are left out": lambda x, codes, scales: functional.linear(
                x.double(), dequantise(codes, torch.ones_like(scales, dtype=torch.float64))
            ),
            "every row has the first row's scales": lambda x, codes, scales: functional.linear(
                x.double(), dequantise(codes, scales[:1].expand_as(scales).double())
            ),
        }
        | (
            {
                "the halves of a byte are swapped": lambda x, codes, scales: functional.linear(
                    x.double(), dequantise(codes << 4 | codes >> 4, scales.double())
                )
            }
            if bits == 4
            else {}
        ),
    )


INT8_LINEAR = _quantised("int8_linear", 8)
INT4_LINEAR = _quantised("int4_linear", 4)
