"""The greedy token on trial: the place of the largest logit."""

from typing import Any

import torch
from torch import Tensor

from augur_proof.kernels.coverage import VOCABULARIES, spread
from augur_proof.kernels.op import Expected, Op, Workload
from augur_proof.kernels.values import normal


def greedy_token(logits: Tensor) -> Tensor:
    """The plain op: `[batch, vocabulary]` -> `[batch]`, int64."""
    return logits.argmax(dim=-1)


def _expected(logits: Tensor) -> tuple[Expected, ...]:
    token_ids = logits.double().argmax(dim=-1)
    nothing = torch.zeros(token_ids.shape, dtype=torch.float64)
    return (Expected("token ids", ("batch",), token_ids, nothing, nothing, equal=True),)


def _draw(workload: Workload, generator: torch.Generator) -> tuple[Any, ...]:
    batch, size = workload.axes["batch"], workload.axes["vocabulary"]
    logits = normal((batch, size), generator, workload.dtype)
    if workload.values == "all negative":  # a kernel that starts its maximum at zero
        logits = -20 + logits
    elif workload.values == "masked":  # by a constraint
        hidden = torch.rand(logits.shape, generator=generator) < 0.9
        logits = logits.masked_fill(hidden, -torch.inf)
    # Distinct from all others, by a rounding or two of the coarsest dtype.
    top = logits.amax(-1) + 0.1 * logits.amax(-1).abs() + 0.1
    place = torch.randint(3, size, (batch,), generator=generator)
    if workload.axes["top"] == 0:
        place[-1] = size - 1
    elif workload.axes["top"] == 2:
        place = size - 1 - place // 2
    return (logits.scatter(1, place[:, None], top[:, None]).to(workload.dtype),)


def _workloads(dtype: torch.dtype) -> tuple[Workload, ...]:
    chosen = spread(
        8,
        {
            "vocabulary": (*VOCABULARIES, 257),
            "batch": (1, 2, 5),
            "top": (0, 1, 2),
            "layout": ("contiguous", "offset", "strided", "transposed"),
            "values": ("normal", "all negative", "masked"),
        },
        lambda **_: True,
    )
    return tuple(
        Workload(
            "greedy_token",
            dtype,
            {name: one[name] for name in ("batch", "vocabulary", "top")},
            one["layout"],
            one["values"],
        )
        for one in chosen
    )


GREEDY_TOKEN = Op(
    name="greedy_token",
    arguments=("logits",),
    plain=greedy_token,
    expected=_expected,
    draw=_draw,
    workloads=_workloads,
    due=lambda logits: ((logits.shape[:1], torch.int64),),
    own_operators=frozenset({"argmax", "max", "topk", "sort"}),
    mistakes={
        "it is the place of the smallest": lambda logits: logits.argmin(-1),
        "it is the place of the largest magnitude": lambda logits: (
            logits.abs().nan_to_num(posinf=-1).argmax(-1)
        ),
        "only the first half is searched": lambda logits: logits[:, : logits.shape[1] // 2].argmax(
            -1
        ),
    },
)
