"""What tests ask of a process in which Triton interprets kernels on the CPU.

Triton reads TRITON_INTERPRET when it is imported, and other tests of this process may compile.
"""

import copy
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from augur_gen import StaticKVCache
from augur_model import QwenConfig, QwenForCausalLM
from augur_proof import DTYPES, WHOLE_MODEL, Candidate, fill_randomly
from augur_proof.compare import allowed_rms_ratio
from augur_proof.kernels import OPS, Workload, try_workload

PROMPT, NEW = 19, 4


@contextmanager
def interpreting() -> Iterator[Callable[..., Any]]:
    """`call(function, *arguments)` in that process, which ends with the block."""
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with pool, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        pool.submit(torch.set_num_threads, 1).result()
        patch.undo()
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def workloads(op: str, dtype: str) -> list[Workload]:
    """What the kit tries an op on, the smallest first."""
    return sorted(OPS[op].workloads(DTYPES[dtype]), key=_size)


def _size(workload: Workload) -> int:
    """Values that are computed with, roughly."""
    axes = workload.axes
    if workload.op == "attention":
        return axes["batch"] * axes["heads"] * axes["head_dim"] * axes["queries"] * axes["keys"]
    size = 1
    for axis in axes.values():
        size *= max(axis, 1)
    return size


def complaint(op: str, dtype: str, place: int, spoilt: bool = False) -> str | None:
    """What the kit says against a Triton kernel on one workload; None where it holds.

    A spoilt one gives a last value that is off by an eighth.
    """
    from augur_kernels import TRITON_KERNELS

    def kernel(*arguments: Any) -> Any:
        given = TRITON_KERNELS[op](*arguments)
        if spoilt:
            first = given[0] if isinstance(given, tuple) else given
            first[(-1,) * first.dim()] *= 1.125
            first[(-1,) * first.dim()] += 0.125
        return given

    workload = workloads(op, dtype)[place]
    outcome = try_workload(kernel, OPS[op], workload)
    if outcome.falls_back_on:
        return f"{workload}: torch's own {', '.join(outcome.falls_back_on)} computes it"
    return None if outcome.held else f"{workload}: {outcome.complaint} ({outcome.where})"


def shares_of_allowance(config: dict[str, Any], dtype: str) -> dict[str, float]:
    """A random model computed with `TRITON`, beside the plain ops.

    Returns:
        the error of its logits as a share of what is allowed, by how tokens were fed: in float32
        the largest difference, in half precision the root mean square beside the plain ops' own.
    """
    plain, triton = _models(config, dtype)
    exact = Candidate(copy.deepcopy(plain.model).float())
    token_ids = torch.randint(128, (2, PROMPT), generator=torch.Generator().manual_seed(1))

    def share(feed: Callable[[Candidate], Tensor]) -> float:
        expected, found = feed(plain), feed(triton)
        if dtype == "float32":
            bound = WHOLE_MODEL[torch.float32].bound
            return float(((found - expected).abs() / bound(expected)).max())
        right = feed(exact)
        error, own = ((one.float() - right).square().mean().sqrt() for one in (found, expected))
        return float(error / own) / allowed_rms_ratio(len(right.flatten(0, -2)))

    return {
        "in chunks and one by one": share(lambda one: one.logits(token_ids[:1], (11, 6, 1, 1))),
        "padded": share(lambda one: _padded(one, token_ids)),
    }


def greedy_tokens(config: dict[str, Any], dtype: str) -> tuple[list[int], list[int]]:
    """What the same two models continue a prompt with: the plain one first."""
    plain, triton = _models(config, dtype)
    prompt = list(range(PROMPT))
    first, second = (list(one.greedy(prompt, NEW).token_ids) for one in (plain, triton))
    return first, second


def _models(config: dict[str, Any], dtype: str) -> tuple[Candidate, Candidate]:
    from augur_kernels import TRITON

    model = QwenForCausalLM(QwenConfig.from_dict(config))
    fill_randomly(model, seed=0)
    plain = Candidate(model.to(DTYPES[dtype]))
    return plain, plain.with_ops(TRITON, "triton")


@torch.inference_mode()
def _padded(candidate: Candidate, token_ids: Tensor) -> Tensor:
    """Rows of different lengths over one cache, and one token more of each; the real logits."""
    cache = StaticKVCache.for_model(candidate.model, PROMPT + 4, batch_size=2)
    first = candidate.model(token_ids, cache=cache, num_tokens=(PROMPT, 7))
    second = candidate.model(token_ids[:, :1], cache=cache)
    return torch.cat((first[0], first[1, :7], second[:, 0]))
