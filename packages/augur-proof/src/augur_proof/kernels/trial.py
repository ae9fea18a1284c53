"""A kernel on trial: called where it cannot cheat, and judged call by call."""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from augur_proof.kernels.budget import Judgement, judge, unit_of
from augur_proof.kernels.guards import Placed, Watch, never_written
from augur_proof.kernels.op import Expected, Kernel, Op, Workload
from augur_proof.kernels.whereabouts import whereabouts
from augur_proof.ulp import ulp_distance


@dataclass(frozen=True)
class Figures:
    """How far one output was from right.

    Attributes:
        output: its name.
        judgement: errors, limits and shares.
        mismatches: share of values that are not the plain op's.
        ulps: representable numbers between the candidate and the plain op at the largest error.
        found: the candidate's value there.
        oracle: the value it should have.
        absolute: the largest absolute error.
    """

    output: str
    judgement: Judgement
    mismatches: float
    ulps: int | None
    found: float
    oracle: float
    absolute: float


@dataclass(frozen=True)
class Outcome:
    """What came of one workload.

    Attributes:
        workload: what was called.
        seed: that draws its inputs again.
        complaint: what is wrong, in words; None where it held.
        where: the part of the output that is wrong; empty where it held.
        figures: of the output that uses most of its budget; None where there was none to judge.
        semantics: the rounding order that the kernel follows; None where there is one, or they
            cannot be told apart.
        looks_like: the known mistake that it agrees with.
        operators: torch's operators that it called.
        falls_back_on: those of them that compute this op by themselves.
    """

    workload: Workload
    seed: int
    complaint: str | None = None
    where: str = ""
    figures: Figures | None = None
    semantics: str | None = None
    looks_like: str | None = None
    operators: frozenset[str] = frozenset()
    falls_back_on: frozenset[str] = field(default=frozenset())

    @property
    def held(self) -> bool:
        """Whether nothing was wrong."""
        return self.complaint is None

    @property
    def share(self) -> float:
        """The share of its budget that it used; infinite where it broke a rule."""
        share = self.figures.judgement.share if self.figures else 0.0
        return share if self.held or share > 1 else float("inf")


def put_on_trial(
    kernel: Kernel,
    op: Op,
    dtypes: Iterable[torch.dtype] = (torch.float32, torch.bfloat16, torch.float16),
    device: torch.device | str = "cpu",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Outcome]:
    """Every workload of an op, each with a seed of its own from the system."""
    workloads = [workload for dtype in dtypes for workload in op.workloads(dtype)]
    outcomes = []
    for done, workload in enumerate(workloads):
        progress(done, len(workloads))
        outcomes.append(try_workload(kernel, op, workload, device))
    progress(len(workloads), len(workloads))
    return outcomes


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
    call = _Call(kernel, op, workload, first, device)
    watch = Watch()
    try:
        with watch:
            kept = call()
        outputs = [_copies(kept)]
        call.fill(second)
        outputs += [_copies(call()), _copies(call())]
        complaint = call.complaint() or watch.complaint()
        if complaint is None and not all(map(_same_bits, outputs[0], _copies(kept))):
            complaint = "a later call overwrites what an earlier one gave"
        if complaint is None and not all(map(_same_bits, outputs[1], outputs[2])):
            complaint = "two calls on equal inputs give different bits"
    except _BrokenError as error:
        return Outcome(workload, seed, str(error), where=error.where)
    seen = {
        "operators": frozenset(watch.operators),
        "falls_back_on": frozenset(watch.operators) & op.own_operators,
    }
    found = [
        judge_outputs(op, workload, _on(device, inputs), given)
        for inputs, given in ((first, outputs[0]), (second, outputs[1]))
    ]
    # A broken rule is told first, then the call that was worse.
    worse = max(found, key=lambda one: one.share)
    wrong = complaint or worse.complaint
    return Outcome(
        workload,
        seed,
        wrong,
        where=worse.where if wrong else "",
        figures=worse.figures,
        semantics=worse.semantics,
        looks_like=worse.looks_like,
        **seen,
    )


def judge_outputs(
    op: Op, workload: Workload, inputs: tuple[Any, ...], outputs: tuple[Tensor, ...]
) -> Outcome:
    """Judge what a kernel gave for inputs, drawn or recorded from a model.

    Args:
        op: what it should have computed.
        workload: for the report.
        inputs: the arguments, unchanged.
        outputs: what the kernel gave, of the right shapes and dtypes.
    """
    plain = _as_tuple(op.plain(*inputs))
    judged = [
        _judge_output(one, found, reference)
        for one, found, reference in zip(op.expected(*inputs), outputs, plain, strict=True)
    ]
    worst = max(judged, key=lambda one: one.share)
    semantics = _followed(op, inputs, outputs[0], plain[0])
    looks_like = None if worst.held else _looks_like(op, inputs, outputs[0], plain[0])
    return Outcome(
        workload, 0, worst.complaint, worst.where, worst.figures, semantics, looks_like
    )


class _BrokenError(Exception):
    """A kernel raised, or gave something else than it should."""

    def __init__(self, message: str, where: str = "everywhere") -> None:
        super().__init__(message)
        self.where = where


class _Call:
    """A kernel, with its inputs in guarded memory."""

    def __init__(
        self,
        kernel: Kernel,
        op: Op,
        workload: Workload,
        inputs: tuple[Any, ...],
        device: torch.device,
    ) -> None:
        self._kernel = kernel
        self._placed = {
            place: Placed(op.arguments[place], value, workload.layout, device)
            for place, value in enumerate(inputs)
            if isinstance(value, Tensor)
        }
        self._arguments = tuple(
            self._placed[place].tensor if place in self._placed else value
            for place, value in enumerate(inputs)
        )
        self._complaint: str | None = None
        self._due = op.due(*inputs)
        self._device = device

    def fill(self, inputs: tuple[Any, ...]) -> None:
        """Other values, in the same memory."""
        self._note()
        for place, placed in self._placed.items():
            placed.fill(inputs[place])

    def complaint(self) -> str | None:
        """What the calls did to their inputs, in words."""
        self._note()
        return self._complaint

    def _note(self) -> None:
        for placed in self._placed.values():
            self._complaint = self._complaint or placed.complaint()

    def __call__(self) -> tuple[Tensor, ...]:
        try:
            given = self._kernel(*self._arguments)
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # whatever a kernel does when it is run
            raise _BrokenError(f"it raised {type(error).__name__}: {error}") from error
        outputs = _as_tuple(given)
        if len(outputs) != len(self._due):
            raise _BrokenError(
                f"it gave {type(given).__name__}, expected a tuple of {len(self._due)} tensors"
            )
        for wanted, output in zip(self._due, outputs, strict=True):
            self._check(output, *wanted)
        return outputs

    def _check(self, output: Any, shape: torch.Size, dtype: torch.dtype) -> None:
        wanted = f"{list(shape)} {_short(dtype)} on {self._device}"
        if type(output) is not Tensor or output.layout != torch.strided:
            raise _BrokenError(f"it gave a {type(output).__name__}, expected a tensor {wanted}")
        kind = f"{list(output.shape)} {_short(output.dtype)} on {output.device}"
        due = (shape, dtype, self._device.type)
        if (output.shape, output.dtype, output.device.type) != due:
            raise _BrokenError(f"it gave {kind}, expected {wanted}")
        if any(placed.holds(output) for placed in self._placed.values()):
            raise _BrokenError("its output lies in the memory of an input")


def _judge_output(expected: Expected, found: Tensor, plain: Tensor) -> Outcome:
    """An `Outcome` of one output; its workload is filled in by the caller."""
    unnamed = Workload("", plain.dtype, {})
    differs = ~((found == plain) | (found.isnan() & plain.isnan()))
    if expected.equal:
        complaint = where = None
        if differs.any():
            where = whereabouts(differs, expected.axes)
            complaint = (
                f"{expected.name}: {int(differs.sum())} of {differs.numel()} values differ where "
                "equality is due"
            )
        return Outcome(unnamed, 0, complaint, where or "")
    judged = judge(found, plain, expected)
    index = judged.candidate.index
    figures = Figures(
        expected.name,
        judged,
        float(differs.double().mean()),
        None if found[index].isnan() or plain[index].isnan() else _ulps(found[index], plain[index]),
        float(found[index]),
        float(expected.oracle[index]),
        float((found.double() - expected.oracle).abs().nan_to_num(nan=torch.inf).max()),
    )
    unwritten = never_written(found) & ~never_written(plain)
    not_finite = ~found.isfinite() & plain.isfinite()
    if unwritten.any():
        complaint = f"{int(unwritten.sum())} of {found.numel()} values were never written"
        return Outcome(unnamed, 0, complaint, whereabouts(unwritten, expected.axes), figures)
    if not_finite.any():
        complaint = f"{int(not_finite.sum())} of {found.numel()} values are not finite"
        return Outcome(unnamed, 0, complaint, whereabouts(not_finite, expected.axes), figures)
    if judged.held:
        return Outcome(unnamed, 0, figures=figures)
    return Outcome(unnamed, 0, *_too_far(expected, judged, found), figures)


def _too_far(expected: Expected, judged: Judgement, found: Tensor) -> tuple[str, str]:
    """What is too large, and where."""
    worst, ours, own = judged.worst, judged.candidate, judged.plain
    words = {
        "rms": (
            f"its error is {judged.rms_ratio:.3g} times the plain op's (root mean square), "
            f"allowed {judged.limits.rms / own.rms if own.rms else float('inf'):.3g}"
        ),
        "largest": (
            f"its largest error is {ours.largest:.3g} roundings, allowed "
            f"{judged.limits.largest:.3g}; found {float(found[ours.index]):.6g}, expected "
            f"{float(expected.oracle[ours.index]):.6g}"
        ),
        "bias": (
            f"its results are too {'large' if ours.bias > 0 else 'small'} by {abs(ours.bias):.3g} "
            f"roundings on average, allowed {judged.limits.bias:.3g}"
        ),
    }
    if judged.wrong.any():
        return words[worst], whereabouts(judged.wrong, expected.axes)
    error = ((found.double() - expected.oracle) / judged.unit).nan_to_num(nan=torch.inf)
    rows = error.square().mean(-1).sqrt() > judged.limits.rms
    part = whereabouts(rows, expected.axes[:-1]) if rows.any() else "everywhere"
    return words[worst], part


def _followed(
    op: Op, inputs: tuple[Any, ...], found: Tensor, plain: Tensor
) -> str | None:
    """The rounding order whose ideal differs in fewest values, where one is clearly nearest."""
    if not op.semantics or plain.dtype == torch.float32:
        return None  # float32 inside cannot be told from float32 outside
    unequal = {
        name: float((ideal(*inputs) != found).double().mean())
        for name, ideal in op.semantics.items()
    }
    nearest, other = sorted(unequal, key=unequal.__getitem__)[:2]
    return nearest if unequal[nearest] < 0.05 and unequal[other] > 2 * unequal[nearest] else None


def _looks_like(
    op: Op, inputs: tuple[Any, ...], found: Tensor, plain: Tensor
) -> str | None:
    """The mistake whose formula explains nearly all of the error, where there is one."""
    expected = op.expected(*inputs)[0]
    if expected.equal:
        exact = {n: m(*inputs) for n, m in op.mistakes.items()}
        return next((name for name, made in exact.items() if torch.equal(made, found)), None)
    unit = unit_of(expected, plain.dtype)

    def apart(values: Tensor) -> float:
        away = ((found.double() - values.double()) / unit).nan_to_num(nan=1e9, posinf=1e9)
        return float(away.clamp(-1e9, 1e9).square().mean().sqrt())

    from_right = apart(expected.oracle)
    made = {name: apart(mistake(*inputs)) for name, mistake in op.mistakes.items()}
    nearest = min(made, key=made.__getitem__, default=None)
    return nearest if nearest and made[nearest] < 0.7 * from_right else None


def _as_tuple(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def _copies(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(output.clone() for output in outputs)


def _on(device: torch.device, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v.to(device) if isinstance(v, Tensor) else v for v in inputs)


def _same_bits(one: Tensor, other: Tensor) -> bool:
    flat = (one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
    return torch.equal(*flat)


def _ulps(found: Tensor, plain: Tensor) -> int:
    return int(ulp_distance(found[None].cpu(), plain[None].cpu()))


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
