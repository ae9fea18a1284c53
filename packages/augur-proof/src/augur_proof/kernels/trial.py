"""A kernel on trial: called where it cannot cheat, and judged call by call."""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from augur_proof.kernels.calling import BrokenKernelError, GuardedCall, on_device
from augur_proof.kernels.guards import Watch
from augur_proof.kernels.op import Kernel, Op, Workload
from augur_proof.kernels.verdict import Outcome, judge_outputs, looks_like
from augur_proof.tolerance import DTYPES


def put_on_trial(
    kernel: Kernel,
    op: Op,
    dtypes: Iterable[torch.dtype] = tuple(DTYPES.values()),
    device: torch.device | str = "cpu",
) -> list[Outcome]:
    """What came of every workload of an op, each with a seed of its own from the system."""
    return list(each_outcome(kernel, op, dtypes, device))


def each_outcome(
    kernel: Kernel,
    op: Op,
    dtypes: Iterable[torch.dtype] = tuple(DTYPES.values()),
    device: torch.device | str = "cpu",
) -> Iterator[Outcome]:
    """As `put_on_trial`, one after another, for those who need not see them all."""
    for dtype in dtypes:
        for workload in op.workloads(dtype):
            yield try_workload(kernel, op, workload, device)


@torch.inference_mode()
def try_workload(
    kernel: Kernel,
    op: Op,
    workload: Workload,
    device: torch.device | str = "cpu",
    seed: int | None = None,
) -> Outcome:
    """Call a kernel three times, and judge what it gives.

    First watched, on inputs in poisoned memory; then, in the same memory, on other values, twice:
    what was kept from a call before is wrong now, and equal inputs must give equal bits. Only after
    that are the oracle and the plain op computed, so no memory holds an answer before.

    Args:
        kernel: on trial.
        op: what it should compute.
        workload: what it is called on.
        device: where.
        seed: of the inputs; from the system if left out, so that none can be known before.
    """
    device = torch.device(device)
    seed = secrets.randbits(63) if seed is None else seed
    generator = torch.Generator().manual_seed(seed)
    first, second = op.draw(workload, generator), op.draw(workload, generator)
    call = GuardedCall(kernel, op, workload, first, device)
    watch = Watch()
    try:
        with watch:
            kept = call()
        # One that writes where it should not is not called again where nothing guards it.
        outside = watch.complaint()
        if outside:
            return Outcome(workload, seed, outside, where="beyond its output")
        outputs = [_copies(kept)]
        call.fill(second)
        outputs += [_copies(call()), _copies(call())]
        complaint = call.complaint()
        if complaint is None and not all(map(_same_bits, outputs[0], _copies(kept))):
            complaint = "a later call overwrites what an earlier one gave"
        same = all(map(_same_bits, outputs[1], outputs[2]))
        if complaint is None and not same and op.examine is None:
            complaint = "two calls on equal inputs give different bits"
        # Where all draws are one token, there may be but one to draw.
        several = any(bool((one != one.flatten()[0]).any()) for one in outputs[1])
        if complaint is None and same and several and op.examine is not None:
            complaint = "two calls draw the same"
    except BrokenKernelError as error:
        return Outcome(workload, seed, str(error), where=error.where)
    moved = (tuple(on_device(one, device) for one in inputs) for inputs in (first, second))
    tried = zip(moved, outputs[:2], strict=True)
    judged = [(judge_outputs(op, workload, *one), *one) for one in tried]
    # A broken rule is told first, then the call that was worse.
    worse, inputs, given = max(judged, key=lambda one: one[0].share)
    return replace(
        worse,
        seed=seed,
        complaint=complaint or worse.complaint,
        where=worse.where or ("everywhere" if complaint else ""),
        looks_like=None if worse.held else looks_like(op, inputs, given[0]),
        operators=frozenset(watch.operators),
        falls_back_on=frozenset(watch.operators) & op.own_operators,
    )


def _copies(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(output.clone() for output in outputs)


def _same_bits(one: Tensor, other: Tensor) -> bool:
    flat = (one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
    return torch.equal(*flat)
