"""What is reported of one rung, from its readings."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from typing import Any

from augur.devices import DTYPES, DTypeName
from augur_bench.limits import Limits, Share
from augur_bench.measure import Reading
from augur_bench.peers import PEERS
from augur_bench.spread import Spread, percentile
from augur_bench.work import ModelSize
from augur_gen import Timings


class RungFigures:
    """The figures of a rung that others are derived from.

    Args:
        runs: of one rung.
    """

    def __init__(self, runs: list[Timings]) -> None:
        self.prefill_s = Spread.of(run.prefill_s for run in runs)
        self.ttft_s = Spread.of(run.ttft_s for run in runs)
        self.prefill_tokens_per_s = Spread.of_rates(run.prefill_tokens_per_s for run in runs)
        self.decode_tokens_per_s = Spread.of_rates(run.decode_tokens_per_s for run in runs)
        self.token_s = list(chain.from_iterable(run.token_s[1:] for run in runs))


def rung_object(
    reading: Reading,
    parent: Reading | None,
    dtype: DTypeName,
    size: ModelSize,
    limits: Limits,
) -> dict[str, Any]:
    """All that is reported.

    Args:
        reading: the rung's.
        parent: of the rung that it is compared with, if that was run.
        dtype: that it ran in.
        size: of the model.
        limits: of the machine.
    """
    rung, rounds, figures = reading.rung, reading.rounds, RungFigures(reading.runs)
    warm_up_s = [one.warm_up.token_s for one in rounds]
    return {
        "name": rung.name,
        "changes": rung.changes,
        "parent": rung.parent,
        "peer": rung.name in PEERS,
        "dtype": dtype,
        "load_s": asdict(Spread.of(one.load_s for one in rounds)),
        "warm_up_s": asdict(Spread.of(map(sum, warm_up_s))),
        # The first decode step: compilation, and one step beside it.
        "compile_s": asdict(Spread.of(one[1] for one in warm_up_s)) if rung.compiles else None,
        "prefill_s": asdict(figures.prefill_s),
        "ttft_s": asdict(figures.ttft_s),
        "prefill_tokens_per_s": _optional(figures.prefill_tokens_per_s),
        "decode_tokens_per_s": _optional(figures.decode_tokens_per_s),
        "token_s": {
            "p50": percentile(figures.token_s, 50),
            "p95": percentile(figures.token_s, 95),
        },
        "peak_memory_bytes": _most(one.peak_bytes for one in rounds),
        "peak_memory_holds_loading": not all(one.peak_was_reset for one in rounds),
        "load_peak_memory_bytes": _most(one.load_peak_bytes for one in rounds),
        "gain": None if parent is None else _gain(reading, parent),
        "share": _shares(reading.runs, figures, dtype, size, limits),
        "exactness": reading.exactness,
        "token_ids": rounds[0].token_ids[-1],
        "same_tokens_every_run": _all_equal(ids for one in rounds for ids in one.token_ids),
        "same_logits_every_run": _all_equal(sums for one in rounds for sums in one.row_sums),
        "runs": [
            {"round": number, "prefill_s": run.prefill_s, "token_s": list(run.token_s)}
            for number, one in enumerate(rounds)
            for run in one.runs
        ],
    }


def pair_object(ours: Reading, theirs: Reading) -> dict[str, Any]:
    """How many times faster ours is, run by run, as they stood side by side."""
    return {
        "ours": ours.rung.name,
        "theirs": theirs.rung.name,
        "prefill": asdict(
            _ratios((run.prefill_s for run in theirs.runs), (run.prefill_s for run in ours.runs))
        ),
        "ttft": asdict(
            _ratios((run.ttft_s for run in theirs.runs), (run.ttft_s for run in ours.runs))
        ),
        "decode": None
        if any(run.decode_s == 0 for run in (*ours.runs, *theirs.runs))
        else asdict(
            _ratios((run.decode_s for run in theirs.runs), (run.decode_s for run in ours.runs))
        ),
    }


def _ratios(numerators: Iterable[float], denominators: Iterable[float]) -> Spread:
    return Spread.of(one / other for one, other in zip(numerators, denominators, strict=True))


def _gain(ours: Reading, parent: Reading) -> dict[str, Any]:
    """Round by round, which keeps the machine's drift from one to the next out of it."""
    prefill, decode = [], []
    for our_round, parents_round in zip(ours.rounds, parent.rounds, strict=True):
        figures, parents = RungFigures(our_round.runs), RungFigures(parents_round.runs)
        prefill.append(parents.prefill_s.over(figures.prefill_s))
        if figures.decode_tokens_per_s is not None and parents.decode_tokens_per_s is not None:
            decode.append(figures.decode_tokens_per_s.over(parents.decode_tokens_per_s))
    return {
        "prefill": asdict(Spread.across(prefill)),
        "decode": asdict(Spread.across(decode)) if decode else None,
    }


def _shares(
    runs: list[Timings],
    figures: RungFigures,
    dtype: DTypeName,
    size: ModelSize,
    limits: Limits,
) -> dict[str, Any]:
    num_prompt, num_new = runs[0].num_prompt_tokens, len(runs[0].token_s)
    prefill = limits.share(size.prefill_work(num_prompt, DTYPES[dtype]), figures.prefill_s, dtype)
    decode = None
    if figures.decode_tokens_per_s is not None:
        seconds = Spread.of(run.decode_s / (num_new - 1) for run in runs)
        work = size.decode_work(num_prompt, num_new, DTYPES[dtype])
        decode = _share_object(limits.share(work, seconds, dtype))
    return {"prefill": _share_object(prefill), "decode": decode}


def _share_object(share: Share) -> dict[str, Any]:
    bound = "bandwidth" if share.of_roofline is share.bandwidth else "compute"
    return {
        "bandwidth": asdict(share.bandwidth),
        "compute": asdict(share.compute),
        "of_roofline": asdict(share.of_roofline),
        "bound": bound,
    }


def _most(peaks: Iterable[int | None]) -> int | None:
    return max((peak for peak in peaks if peak is not None), default=None)


def _all_equal(values: Iterable[list[int]]) -> bool:
    first, *others = values
    return all(value == first for value in others)


def _optional(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else asdict(spread)
