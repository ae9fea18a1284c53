"""What came of one call: the figures, and what is wrong and where, in words."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from augur_proof.kernels.budget import Judgement, judge, unit_of
from augur_proof.kernels.guards import never_written
from augur_proof.kernels.op import Expected, Op, Workload
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
    seed: int = 0
    complaint: str | None = None
    where: str = ""
    figures: Figures | None = None
    semantics: str | None = None
    looks_like: str | None = None
    operators: frozenset[str] = frozenset()
    falls_back_on: frozenset[str] = frozenset()

    @property
    def held(self) -> bool:
        """Whether nothing was wrong."""
        return self.complaint is None

    @property
    def share(self) -> float:
        """The share of its budget that it used; infinite where it broke a rule."""
        share = self.figures.judgement.share if self.figures else 0.0
        return share if self.held or share > 1 else float("inf")


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
    if op.examine is not None:
        wrong = op.examine(inputs, *outputs)
        return Outcome(workload, 0, *wrong) if wrong else Outcome(workload)
    given = op.plain(*inputs)
    plain = given if isinstance(given, tuple) else (given,)
    judged = [
        _judge_output(workload, one, found, reference)
        for one, found, reference in zip(op.expected(*inputs), outputs, plain, strict=True)
    ]
    worst = max(judged, key=lambda one: one.share)
    return replace(worst, semantics=_followed(op, inputs, outputs[0], plain[0]))


def _judge_output(workload: Workload, expected: Expected, found: Tensor, plain: Tensor) -> Outcome:
    """An `Outcome` of one output."""
    differs = ~((found == plain) | (found.isnan() & plain.isnan()))
    if expected.equal:
        if not differs.any():
            return Outcome(workload)
        complaint = (
            f"{expected.name}: {int(differs.sum())} of {differs.numel()} values differ where "
            "equality is due"
        )
        return Outcome(workload, 0, complaint, whereabouts(differs, expected.axes))
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
        return Outcome(workload, 0, complaint, whereabouts(unwritten, expected.axes), figures)
    if not_finite.any():
        complaint = f"{int(not_finite.sum())} of {found.numel()} values are not finite"
        return Outcome(workload, 0, complaint, whereabouts(not_finite, expected.axes), figures)
    if judged.held:
        return Outcome(workload, figures=figures)
    return Outcome(workload, 0, *_too_far(expected, judged, found), figures)


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


def _followed(op: Op, inputs: tuple[Any, ...], found: Tensor, plain: Tensor) -> str | None:
    """The rounding order whose ideal differs in fewest values, where one is clearly nearest."""
    if not op.semantics or plain.dtype == torch.float32:
        return None  # float32 inside cannot be told from float32 outside
    unequal = {
        name: float((ideal(*inputs) != found).double().mean())
        for name, ideal in op.semantics.items()
    }
    nearest, other = sorted(unequal, key=unequal.__getitem__)[:2]
    return nearest if unequal[nearest] < 0.05 and unequal[other] > 2 * unequal[nearest] else None


def looks_like(op: Op, inputs: tuple[Any, ...], found: Tensor) -> str | None:
    """The known mistake that explains the first output, where that is wrong and there is one."""
    if op.examine is not None:
        return None
    expected = op.expected(*inputs)[0]
    if expected.equal:
        exact = {name: mistake(*inputs) for name, mistake in op.mistakes.items()}
        return next((name for name, made in exact.items() if torch.equal(made, found)), None)
    given = op.plain(*inputs)
    plain = given[0] if isinstance(given, tuple) else given
    if judge(found, plain, expected).held:
        return None
    unit = unit_of(expected, found.dtype)

    def apart(values: Tensor) -> float:
        away = ((found.double() - values.double()) / unit).nan_to_num(nan=1e9, posinf=1e9)
        return float(away.clamp(-1e9, 1e9).square().mean().sqrt())

    from_right = apart(expected.oracle)
    # Two roundings of what should have been, or of what the mistake makes of it where that is more.
    explained = max(2.0, max(1e-5, 2 * torch.finfo(found.dtype).eps) * from_right)
    made = {name: apart(mistake(*inputs)) for name, mistake in op.mistakes.items()}
    nearest = min(made, key=made.__getitem__, default=None)
    if nearest and made[nearest] < min(0.7 * from_right, explained):
        return nearest
    return None


def _ulps(found: Tensor, plain: Tensor) -> int:
    return int(ulp_distance(found[None].cpu(), plain[None].cpu()))
