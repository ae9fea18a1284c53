"""Attention over keys and values in blocks on trial, many sequences in one row."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from augur_model.ops import Pages, eager_attention, gathered_paged_attention
from augur_proof.kernels.attention import ATTENTION
from augur_proof.kernels.coverage import HEADS, spread
from augur_proof.kernels.op import Expected, Op, Workload
from augur_proof.kernels.values import normal

_ROWS = (
    ((1, 1),),  # one that decodes, alone
    ((17, 17),),  # a prompt
    ((1, 257), (1, 1), (1, 16), (1, 99)),  # many that decode, of very different lengths
    ((15, 99), (1, 33), (2, 2)),  # a chunk on filled blocks, a decode step, a prompt
    ((1, 5003), (1, 17)),
)
"""For each sequence: tokens in the row, and tokens in its blocks."""
_UNUSED = 3e4
"""In what no sequence may see: large enough to be seen."""


def _expected(
    query: Tensor,
    key_blocks: Tensor,
    value_blocks: Tensor,
    pages: Pages,
    scale: float,
    window: int | None,
    _attention: Any,
) -> tuple[Expected, ...]:
    """Of each sequence by itself, one after another along the row."""
    parts: list[Expected] = []

    def attend(*inputs: Any) -> Tensor:
        parts.extend(ATTENTION.expected(*inputs))
        return parts[-1].oracle

    gathered_paged_attention(query, key_blocks, value_blocks, pages, scale, window, attend)
    oracle, magnitude, summing = (
        torch.cat([getattr(part, name) for part in parts], dim=2)
        for name in ("oracle", "magnitude", "summing")
    )
    axes = ("batch", "head", "token", "channel")
    return (Expected("attended", axes, oracle, magnitude, summing),)


def _draw(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    axes, dtype = workload.axes, workload.dtype
    sequences, size = _ROWS[axes["row"]], axes["block_size"]
    counts, lengths = zip(*sequences, strict=True)
    heads, kv_heads, head_dim = axes["heads"], axes["kv_heads"], axes["head_dim"]
    needed = [-(-length // size) for length in lengths]
    # Blocks of all sequences in no order, and some that are nobody's.
    places = torch.randperm(sum(needed) + 3, generator=generator)
    blocks = torch.split(places[: sum(needed)], needed)
    # A shorter table ends with its own last block again and again.
    tables = torch.stack(
        [torch.cat((own, own[-1:].expand(max(needed) - len(own)))) for own in blocks]
    )
    shape = (len(places), size, kv_heads, head_dim)
    key, value = normal(shape, generator, dtype), normal(shape, generator, dtype)
    value[places[sum(needed) :]] = _UNUSED
    for own, length in zip(blocks, lengths, strict=True):
        if length % size:
            value[own[-1], length % size :] = _UNUSED
    query = normal((1, heads, sum(counts), head_dim), generator, dtype)
    pages = Pages(counts, lengths, tables)
    window = max(2, max(lengths) // 3) if axes["window"] else None
    scale = head_dim**-0.5
    tensors = (query.to(dtype), key.to(dtype), value.to(dtype))
    return *tensors, pages, scale, window, eager_attention


def _workloads(dtype: torch.dtype) -> tuple[Workload, ...]:
    def fits(heads: tuple[int, int, int], row: int, **_: Any) -> bool:
        return heads[1] * heads[2] * sum(length for _, length in _ROWS[row]) <= 1_300_000

    chosen = spread(
        12,
        {
            "heads": HEADS,
            "row": tuple(range(len(_ROWS))),
            "block_size": (1, 16, 32),
            "window": (0, 1),
        },
        fits,
    )
    return tuple(
        Workload(
            "paged_attention",
            dtype,
            dict(zip(("heads", "kv_heads", "head_dim"), one["heads"], strict=True))
            | {name: one[name] for name in ("row", "block_size", "window")},
        )
        for one in chosen
    )


def _instead(change: Callable[[Pages, int | None], tuple[Pages, int | None]]) -> Any:
    """The formula in float64 with other pages, or another window."""

    def attend(
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        pages: Pages,
        scale: float,
        window: int | None,
        attention: Any,
    ) -> Tensor:
        wide = query.double(), keys.double(), values.double()
        pages, window = change(pages, window)
        return gathered_paged_attention(*wide, pages, scale, window, attention)

    return attend


def _shorter(pages: Pages, window: int | None) -> tuple[Pages, int | None]:
    each = zip(pages.counts, pages.lengths, strict=True)
    lengths = tuple(max(count, length - 1) for count, length in each)
    return replace(pages, lengths=lengths), window


def _first_table(pages: Pages, window: int | None) -> tuple[Pages, int | None]:
    return replace(pages, tables=pages.tables[:1].expand_as(pages.tables)), window


PAGED_ATTENTION = Op(
    name="paged_attention",
    arguments=(
        *("query", "key_blocks", "value_blocks", "pages"),
        *("scale", "window", "attention"),
    ),
    plain=gathered_paged_attention,
    expected=_expected,
    draw=_draw,
    workloads=_workloads,
    own_operators=ATTENTION.own_operators,
    mistakes={
        "each sequence is taken for one token shorter": _instead(_shorter),
        "every sequence reads the first one's blocks": _instead(_first_table),
        "the window is left out": _instead(lambda pages, _: (pages, None)),
    },
)
