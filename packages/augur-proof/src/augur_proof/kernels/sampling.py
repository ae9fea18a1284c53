"""The drawn token on trial: only tokens that may be drawn are, and as often as is due.

Each row of the logits is the same, so one call is a sample of as many draws as there are rows.
Which random numbers a kernel uses is its own affair.
"""

from typing import Any

import torch
from torch import Tensor

from augur_proof.kernels.coverage import VOCABULARIES, spread
from augur_proof.kernels.op import Op, Workload
from augur_proof.kernels.values import normal

_SIGMAS = 6.0
"""What chance is allowed: it comes to 1e-9."""
_FEWEST_EXPECTED = 8.0
"""Draws that a token must be due for a count of its own; below, counts are no normal numbers."""
_AT_THE_CUT = 1e-4
"""Of the probability: where sums in float32 come to the same, either side of top_p is right."""


def sampled_token(logits: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """The plain op: `[batch, vocabulary]` -> `[batch]`, int64.

    First temperature, then the top_k largest and what equals the last of them, then the most likely
    of these whose probabilities together exceed top_p.
    """
    scaled = logits.float() / temperature
    least = scaled.topk(top_k).values[:, -1:]
    ordered, places = scaled.masked_fill(scaled < least, -torch.inf).sort(-1, descending=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = probabilities.masked_fill(before > top_p, 0)
    return places.gather(1, kept.multinomial(1))[:, 0]


def _examine(
    logits: Tensor, temperature: float, top_k: int, top_p: float, *, drawn: Tensor
) -> tuple[str, str] | None:
    """What is wrong with the tokens drawn, and where; None where nothing is."""
    size, num_draws = logits.shape[1], len(drawn)
    beyond = (drawn < 0) | (drawn >= size)
    if beyond.any():
        return f"{int(beyond.sum())} of {num_draws} tokens are not of the vocabulary", "everywhere"
    scaled = logits[0].double() / temperature
    least = scaled.topk(top_k).values[-1]
    ordered, places = scaled.masked_fill(scaled < least, -torch.inf).sort(descending=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    counts = torch.bincount(drawn, minlength=size).double()[places]
    # Of equal tokens at the cut, any may be kept.
    ascending = -ordered
    first = torch.searchsorted(ascending, ascending)
    last = torch.searchsorted(ascending, ascending, right=True) - 1
    never = (before[first] > top_p + _AT_THE_CUT) | (probabilities == 0)
    if (counts[never] > 0).any():
        rank = int((never & (counts > 0)).nonzero()[0])
        what = f"beyond top_k {top_k}" if probabilities[rank] == 0 else f"beyond top_p {top_p:g}"
        return (
            f"{int(counts[never].sum())} of {num_draws} draws are tokens that may not be drawn",
            f"rank {rank} and on, {what}",
        )
    sure = (before[last] <= top_p - _AT_THE_CUT) & (probabilities > 0)
    due = counts[sure].sum() * probabilities * sure / (probabilities * sure).sum()
    alone = sure & (due >= _FEWEST_EXPECTED)
    off = (counts - due) / due.clamp(min=1).sqrt()
    together = float(off[alone].square().sum())
    free = int(alone.sum())
    # The square root of twice a chi square is nearly normal, of variance 1.
    if free and (2 * together) ** 0.5 - (2 * free) ** 0.5 > _SIGMAS:
        rank = int((off.abs() * alone).argmax())
        return (
            f"frequencies are not those of the probabilities: {int(counts[rank])} draws of "
            f"{num_draws} where {float(due[rank]):.1f} are due",
            f"rank {rank}",
        )
    return None


def _draw(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    axes, dtype = workload.axes, workload.dtype
    row = 2 * normal((1, axes["vocabulary"]), generator, dtype)
    # Never the first tokens: those are what a kernel draws that draws none.
    row[:, :4] = -20
    # The last that is kept and the first that is not are apart, whatever the dtype.
    beyond = row.argsort(descending=True)[:, axes["top_k"] :]
    row.scatter_add_(1, beyond, torch.full(beyond.shape, -0.5, dtype=row.dtype))
    logits = row.to(dtype).repeat(axes["batch"], 1)
    return logits, workload.scalars["temperature"], axes["top_k"], workload.scalars["top_p"]


def _workloads(dtype: torch.dtype) -> tuple[Workload, ...]:
    chosen = spread(
        8,
        {
            "vocabulary": (257, 1031, VOCABULARIES[-1]),
            "top_k": (2, 20, 200),
            "layout": ("contiguous", "offset", "strided"),
            "temperature": (0.7, 1.0, 1.5),
            "top_p": (0.5, 0.8, 1.0),
        },
        lambda **_: True,
    )
    return tuple(
        Workload(
            "sampled_token",
            dtype,
            # As many draws as fit.
            {"batch": 4000 if one["vocabulary"] < 2000 else 40}
            | {name: one[name] for name in ("vocabulary", "top_k")},
            one["layout"],
            scalars={name: one[name] for name in ("temperature", "top_p")},
        )
        for one in chosen
    )


SAMPLED_TOKEN = Op(
    name="sampled_token",
    arguments=("logits", "temperature", "top_k", "top_p"),
    plain=sampled_token,
    examine=lambda inputs, drawn: _examine(*inputs, drawn=drawn),
    draw=_draw,
    workloads=_workloads,
    due=lambda logits, *_: ((logits.shape[:1], torch.int64),),
    own_operators=frozenset({"multinomial"}),
)
