"""Run rungs and keep their readings: round by round in new processes, and within one in turns."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from augur.devices import DTypeName
from augur_bench import process
from augur_bench.errors import RungUnavailableError
from augur_bench.ladder import HALVES, REFERENCE
from augur_bench.limits import Limits
from augur_bench.machine import machine_environment
from augur_bench.rung import Rung
from augur_bench.settings import Settings
from augur_bench.worker import Run, Worker
from augur_gen import Timings

Say = Callable[[str], None]
"""Told what is being done, while it is done."""

# Of all rounds together; fewer show no spread.
_LEAST_RUNS = 2

T = TypeVar("T")


@dataclass(frozen=True)
class Round:
    """What was seen of a rung in one process.

    Attributes:
        load_s: seconds from the checkpoint to a network ready to run.
        warm_up: the first, uncounted run.
        peak_was_reset: False where the peak of the timed runs holds the loading, too.
        runs: the timed ones.
    """

    load_s: float
    warm_up: Run
    peak_was_reset: bool
    runs: list[Run]

    @property
    def timings(self) -> list[Timings]:
        """Of the timed runs."""
        return [run.timings for run in self.runs]


@dataclass
class Reading:
    """What was seen of one rung.

    Attributes:
        rung: which.
        missing: why it is left out, whatever rounds it had before that.
        rounds: what its processes did, one after the other.
        exactness: as `measure_exactness` gives it, of the first round.
    """

    rung: Rung
    missing: str | None = None
    rounds: list[Round] = field(default_factory=list)
    exactness: dict[str, Any] | None = None

    @property
    def timings(self) -> list[Timings]:
        """Of the timed runs of all rounds."""
        return [timings for one in self.rounds for timings in one.timings]


class Climb(NamedTuple):
    """What going through the ladder came to: readings, and what to hold them against.

    Those readings form a group that were measured side by side. `plain_rms` is the root mean square
    of the plain ops' own error against the reference, in each half precision that a rung has.
    """

    environment: dict[str, Any]
    limits: Limits
    groups: list[list[Reading]]
    plain_rms: dict[DTypeName, float]


def climb(settings: Settings, groups: Sequence[tuple[Rung, ...]], say: Say = print) -> Climb:
    """Go through the ladder, up and down; the machine's limits are read before each of its rungs.

    Args:
        settings: of the run.
        groups: rungs, those together that are to be measured side by side: see `choose_pairs`.
        say: told what is being done.

    Raises:
        RungFailedError: a rung broke, and nothing measured is worth showing.
    """
    environment = machine_environment()
    dtypes = {settings.dtype_of(rung) for group in groups for rung in group}
    readings = [[Reading(rung) for rung in group] for group in groups]
    limits = []
    # In a process of its own, so that no rung's peak memory holds the buffers.
    with process.WorkerProcess("limits", settings) as machine:
        _record_reference(settings, say)
        plain_rms = {dtype: _plain_rms(dtype, settings, say) for dtype in HALVES if dtype in dtypes}
        for number in range(settings.rounds):
            for group in turned(readings, number):
                say("machine: reading its limits")
                computing, limit = machine.ask(Worker.machine, dtypes)
                limits.append(limit)
                _measure_round(turned(group, number), settings, say)
    return Climb(environment | computing, Limits.of(limits), readings, plain_rms)


def turned(items: Sequence[T], number: int) -> Sequence[T]:
    """As they are, and every other time backwards: a drift of the machine then hits all alike."""
    return items if number % 2 == 0 else items[::-1]


def take_turns(
    workers: Mapping[str, process.WorkerProcess],
    prompt_token_ids: list[int],
    max_new_tokens: int,
    settings: Settings,
    say: Say,
) -> dict[str, list[Run]]:
    """Run each in turn, and again while there are repeats and time left of the round's share."""
    runs: dict[str, list[Run]] = {name: [] for name in workers}
    started_s = time.perf_counter()
    allowed_s = settings.rung_seconds / settings.rounds * len(workers)
    least = -(-_LEAST_RUNS // settings.rounds)  # rounded up
    for number in range(settings.repeats):
        spent_s = time.perf_counter() - started_s
        if number >= least and spent_s * (number + 1) / number > allowed_s:
            break
        for name in turned(list(workers), number):
            say(f"{name}: run {number + 1} of {settings.repeats}")
            runs[name].append(workers[name].ask(Worker.run, prompt_token_ids, max_new_tokens))
    return runs


def _record_reference(settings: Settings, say: Say) -> None:
    """Run the float32 eager reference once, its logits kept in a file for the rungs."""
    with process.WorkerProcess(REFERENCE.name, settings) as worker:
        say("reference: loading")
        worker.ask(Worker.load, REFERENCE.name)
        worker.ask(Worker.warm_up, settings.prompt_token_ids, settings.capacity)
        say("reference: computing the logits to compare with")
        worker.ask(Worker.record)


def _plain_rms(dtype: DTypeName, settings: Settings, say: Say) -> float:
    name = f"plain-{dtype}"
    with process.WorkerProcess(name, settings) as worker:
        say(f"{name}: how far rounding alone takes it from the reference")
        worker.ask(Worker.load, name)
        worker.ask(Worker.warm_up, settings.prompt_token_ids, settings.capacity)
        found: float = worker.ask(Worker.compare, [])["rms_diff"]
        return found


def _measure_round(readings: Sequence[Reading], settings: Settings, say: Say) -> None:
    """One more round of rungs that live side by side: load, warm up and time each, in this order.

    Logits are compared in the first round; whether later ones give the same, their checksums tell.
    """
    prompt = settings.prompt_token_ids
    workers: dict[str, process.WorkerProcess] = {}
    begun: dict[str, tuple[float, Run, bool]] = {}
    with ExitStack() as stack:
        for reading in (one for one in readings if one.missing is None):
            name = reading.rung.name
            say(f"{name}: loading, round {len(reading.rounds) + 1} of {settings.rounds}")
            worker = stack.enter_context(process.WorkerProcess(name, settings))
            try:
                load_s = worker.ask(Worker.load, name)
                say(f"{name}: warming up")
                begun[name] = load_s, *worker.ask(Worker.warm_up, prompt, settings.capacity)
                workers[name] = worker
            except RungUnavailableError as error:
                reading.missing = str(error)
        runs = take_turns(workers, prompt, settings.max_new_tokens, settings, say)
        for reading in (one for one in readings if one.missing is None):
            name = reading.rung.name
            reading.rounds.append(Round(*begun[name], runs[name]))
            if reading.exactness is None:
                say(f"{name}: comparing logits with the reference's")
                own_token_ids = runs[name][-1].token_ids
                reading.exactness = workers[name].ask(Worker.compare, own_token_ids)
