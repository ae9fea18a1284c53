"""Attention on trial: prefill, a chunk on a filled cache, decode, windows, padding."""

import math
from typing import Any

import torch
from torch import Tensor

from augur_model.ops import causal_mask, eager_attention, repeat_kv, within_window
from augur_proof.kernels.coverage import BATCHES, HEADS, spread
from augur_proof.kernels.op import Expected, Op, Workload
from augur_proof.kernels.values import normal

_SPANS = (
    *((n, n) for n in (1, 2, 15, 17, 99, 257)),  # prefill
    *((1, n) for n in (2, 17, 99, 257, 1023, 5003)),  # decode
    *((2, 17), (15, 99), (17, 1023), (99, 257), (257, 300)),  # a chunk on a filled cache
)
"""Queries, keys."""
_KINDS = ("causal", "window", "padding")


def _expected(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> tuple[Expected, ...]:
    query_length, key_length = query.shape[2], key.shape[2]
    groups = query.shape[1] // key.shape[1]
    query, key, value = (t.double() for t in (query, key, value))
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    visible = causal_mask(query_length, key_length, query.device) if mask is None else mask
    scores = (query @ key.transpose(2, 3) * scale).masked_fill(~visible, -torch.inf)
    weights = scores.softmax(-1)
    # Weights may be rounded to the dtype before they meet the values.
    size = weights @ value.abs()
    # A score of size s, rounded in float32, changes its weight by s epsilon; its own sum of
    # head_dim products and the sum over the keys are added one after another.
    largest = scores.masked_fill(~visible, 0).abs().amax(-1, keepdim=True)
    walk = (query.square() @ key.square().transpose(2, 3)).amax(-1, keepdim=True).sqrt() * scale
    inner = 3 + largest + 0.15 * query.shape[-1] ** 0.5 * walk + 0.1 * key_length**0.5
    axes = ("batch", "head", "query", "channel")
    return (Expected("attended", axes, weights @ value, size, size * inner),)


def _flops(workload: Workload) -> float:
    """Of scores and of sums of values, for the keys that a causal query sees, or its window."""
    axes = workload.axes
    queries, keys = axes["queries"], axes["keys"]
    seen = queries * keys - queries * (queries - 1) / 2
    if _KINDS[axes["kind"]] == "window":
        seen = min(seen, queries * _window(keys))
    return 4.0 * axes["batch"] * axes["heads"] * axes["head_dim"] * seen


def _window(keys: int) -> int:
    return max(2, keys // 3)


def _draw(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    axes, dtype = workload.axes, workload.dtype
    batch, head_dim, queries, keys = (axes[n] for n in ("batch", "head_dim", "queries", "keys"))
    query = normal((batch, axes["heads"], queries, head_dim), generator, dtype)
    shape = (batch, axes["kv_heads"], keys, head_dim)
    key, value = normal(shape, generator, dtype), normal(shape, generator, dtype)
    if workload.values == "sharp":  # one key takes nearly all the weight
        query *= 4
    elif workload.values == "far values":  # and float16's range is nearly used
        value *= 5000
    elif workload.values == "sinks":  # the first token draws weight, as in trained models
        key[:, :, 0] *= 3
        value[:, :, 0] *= 0.01
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    mask, kind = None, axes["kind"]
    if _KINDS[kind] == "window":
        key, value, mask = within_window(key, value, None, queries, _window(keys))
        key, value = key.contiguous(), value.contiguous()
    elif _KINDS[kind] == "padding":
        # Left padding of another length for each row; what it hides is large enough to be seen.
        hidden = torch.randint(0, keys - queries + 1, (batch,), generator=generator)
        unseen = torch.arange(keys) < hidden[:, None]
        mask = causal_mask(queries, keys, query.device) & ~unseen[:, None, None, :]
        value = value.masked_fill(unseen[:, None, :, None], 3e4)
    return query, key, value, mask, head_dim**-0.5


def _workloads(dtype: torch.dtype) -> tuple[Workload, ...]:
    def fits(heads: tuple[int, int, int], span: tuple[int, int], batch: int, **one: Any) -> bool:
        small = batch * heads[0] * span[0] * span[1] <= 700_000
        # A window or padding needs something to leave out.
        return (
            small
            and batch * heads[1] * heads[2] * span[1] <= 1_300_000
            and (one["kind"] == 0 or span[1] > 2)
            and (one["kind"] != 2 or span[1] > span[0])
            # All of the longest cache is seen.
            and (one["kind"] == 0 or span[1] <= 4096)
        )

    chosen = spread(
        20,
        {
            "heads": HEADS,
            "span": _SPANS,
            "batch": BATCHES,
            "kind": (0, 1, 2),
            "layout": ("contiguous", "offset", "strided", "heads inside", "cache"),
            "values": ("normal", "sharp", "far values", "sinks"),
        },
        fits,
    )
    return tuple(
        Workload(
            "attention",
            dtype,
            {
                "batch": one["batch"],
                "heads": one["heads"][0],
                "kv_heads": one["heads"][1],
                "head_dim": one["heads"][2],
                "queries": one["span"][0],
                "keys": one["span"][1],
                "kind": one["kind"],
            },
            one["layout"],
            one["values"],
        )
        for one in chosen
    )


def _instead(change: Any) -> Any:
    """The formula in float64 with its arguments changed."""

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        return eager_attention(*change(q.double(), k.double(), v.double(), mask, scale))

    return attend


def _diagonal(query: Tensor, key: Tensor, offset: int) -> Tensor:
    """Query i sees the keys up to i + offset."""
    seen = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    return seen.tril(offset)


def _shifted(by: int) -> Any:
    return _instead(
        lambda q, k, v, _, s: (q, k, v, _diagonal(q, k, k.shape[2] - q.shape[2] + by), s)
    )


def _tiled(heads: Tensor, like: Tensor) -> Tensor:
    return heads.repeat(1, like.shape[1] // heads.shape[1], 1, 1)


ATTENTION = Op(
    name="attention",
    arguments=("query", "key", "value", "mask", "scale"),
    plain=eager_attention,
    expected=_expected,
    draw=_draw,
    workloads=_workloads,
    flops=_flops,
    own_operators=frozenset(
        {
            "scaled_dot_product_attention",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
        }
    ),
    mistakes={
        "query heads take key/value heads 0, 1, 0, 1, not 0, 0, 1, 1": _instead(
            lambda q, k, v, mask, s: (q, _tiled(k, q), _tiled(v, q), mask, s)
        ),
        "each query sees one token too many": _shifted(1),
        "each query does not see itself": _shifted(-1),
        "queries are aligned with the first keys, not the last": _instead(
            lambda q, k, v, _, s: (q, k, v, _diagonal(q, k, 0), s)
        ),
        "every query sees everything": _instead(
            lambda q, k, v, _, s: (q, k, v, _diagonal(q, k, k.shape[2]), s)
        ),
        "the mask is left out": _shifted(0),
        "the scale is left out": _instead(lambda q, k, v, mask, _: (q, k, v, mask, 1.0)),
        "the scale is applied twice": _instead(lambda q, k, v, mask, s: (q, k, v, mask, s * s)),
        "the exponential has base 2": _instead(
            lambda q, k, v, mask, s: (q, k, v, mask, s * math.log(2))
        ),
    },
)
