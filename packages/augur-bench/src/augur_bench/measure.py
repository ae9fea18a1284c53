"""Run rungs and keep their readings: round by round in new processes, and within one in turns."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from augur_bench.progress import Say
from augur_bench.reference import Reference
from augur_bench.rung import Rung
from augur_bench.settings import Settings
from augur_bench.worker_process import WorkerProcess
from augur_gen import Timings

# Of all rounds together; fewer show no spread.
_LEAST_RUNS = 2

T = TypeVar("T")


@dataclass
class Round:
    """What was seen of a rung in one process.

    Attributes:
        load_s: seconds from the checkpoint to a model ready to run.
        warm_up: of the first, uncounted run.
        load_peak_bytes: most memory taken until the end of the warm-up.
        peak_bytes: most memory taken in the timed runs.
        peak_was_reset: False where `peak_bytes` holds the loading too.
        runs: the timed ones.
        token_ids: of each timed run.
        row_sums: of each timed run, a checksum of the bits of each row of logits.
    """

    load_s: float = 0.0
    warm_up: Timings = field(default_factory=lambda: Timings(0, 0.0, ()))
    load_peak_bytes: int | None = None
    peak_bytes: int | None = None
    peak_was_reset: bool = False
    runs: list[Timings] = field(default_factory=list)
    token_ids: list[list[int]] = field(default_factory=list)
    row_sums: list[list[int]] = field(default_factory=list)


@dataclass
class Reading:
    """What was seen of one rung.

    Attributes:
        rung: which.
        missing: why it is left out, whatever rounds it had before that.
        rounds: what its processes did, one after the other.
        exactness: as `Exactness`, with `own_text` as `Parting`; of the first round.
    """

    rung: Rung
    missing: str | None = None
    rounds: list[Round] = field(default_factory=list)
    exactness: dict[str, Any] | None = None

    @property
    def runs(self) -> list[Timings]:
        """The timed runs of all rounds."""
        return [run for one in self.rounds for run in one.runs]


class Bout:
    """A rung at work in a process, and what is seen of it."""

    def __init__(self, rung: Rung, worker: WorkerProcess) -> None:
        self.rung = rung
        self.round = Round()
        self._worker = worker

    def load(self, settings: Settings) -> str | None:
        """Load the model, or say what is missing for it."""
        answer = self._worker.ask("load", **settings.load_arguments(self.rung))
        missing: str | None = answer["missing"]
        if missing is None:
            self.round.load_s = answer["load_s"]
        return missing

    def warm_up(self, prompt_token_ids: list[int], capacity: int) -> str | None:
        """Reach prefill and decode once, uncounted, or say why the rung does not fit the model."""
        answer = self._worker.ask("warm_up", prompt_token_ids=prompt_token_ids, capacity=capacity)
        missing: str | None = answer["missing"]
        if missing is None:
            self.round.warm_up = _timings(prompt_token_ids, answer)
            self.round.load_peak_bytes = answer["peak_memory_bytes"]
            self.round.peak_was_reset = answer["peak_was_reset"]
        return missing

    def run(self, prompt_token_ids: list[int], max_new_tokens: int) -> None:
        """One timed run more."""
        answer = self._worker.ask(
            "run", prompt_token_ids=prompt_token_ids, max_new_tokens=max_new_tokens
        )
        self.round.runs.append(_timings(prompt_token_ids, answer))
        self.round.token_ids.append(answer["token_ids"])
        self.round.row_sums.append(answer["row_sums"])

    def read_peak(self) -> None:
        """Of the runs: before anything else takes memory of its own."""
        self.round.peak_bytes = self._worker.ask("peak")["peak_memory_bytes"]

    def compare(self, reference: Reference) -> dict[str, Any]:
        """Hold the rung against the reference."""
        arguments = reference.compare_arguments(self.round.token_ids[-1])
        return self._worker.ask("compare", **arguments)


def turned(items: Sequence[T], number: int) -> Sequence[T]:
    """As they are, and every other time backwards: a drift of the machine then hits all alike."""
    return items if number % 2 == 0 else items[::-1]


def measure_round(
    readings: Sequence[Reading], settings: Settings, capacity: int, reference: Reference, say: Say
) -> None:
    """One more round of rungs that live side by side: load, warm up and time each.

    Logits are compared in the first round; whether later ones give the same, their checksums tell.

    Args:
        readings: what is known of the rungs, in the order in which they are loaded; added to.
        settings: of the run.
        capacity: tokens that a sequence may come to.
        reference: to compare with.
        say: told what is being done.
    """
    prompt = settings.workload.prompt_token_ids
    with ExitStack() as stack:
        bouts = [
            (reading, Bout(reading.rung, stack.enter_context(settings.worker(reading.rung.name))))
            for reading in readings
            if reading.missing is None
        ]
        for reading, bout in bouts:
            number = len(reading.rounds) + 1
            say(f"{reading.rung.name}: loading, round {number} of {settings.rounds}")
            reading.missing = bout.load(settings)
            if reading.missing is None:
                say(f"{reading.rung.name}: warming up")
                reading.missing = bout.warm_up(prompt, capacity)
        ready = [(reading, bout) for reading, bout in bouts if reading.missing is None]
        take_turns([bout for _, bout in ready], prompt, settings.max_new_tokens, settings, say)
        for reading, bout in ready:
            bout.read_peak()
            reading.rounds.append(bout.round)
            if reading.exactness is None:
                say(f"{reading.rung.name}: comparing logits with the reference's")
                reading.exactness = bout.compare(reference)


def take_turns(
    bouts: Sequence[Bout],
    prompt_token_ids: list[int],
    max_new_tokens: int,
    settings: Settings,
    say: Say,
) -> None:
    """Run each in turn, and again while there are repeats and time left of the round's share."""
    started_s = time.perf_counter()
    allowed_s = settings.rung_seconds / settings.rounds * len(bouts)
    least = -(-_LEAST_RUNS // settings.rounds)  # rounded up
    for number in range(settings.repeats):
        spent_s = time.perf_counter() - started_s
        if number >= least and spent_s * (number + 1) / number > allowed_s:
            break
        for bout in turned(bouts, number):
            say(f"{bout.rung.name}: run {number + 1} of {settings.repeats}")
            bout.run(prompt_token_ids, max_new_tokens)


def _timings(prompt_token_ids: list[int], answer: dict[str, Any]) -> Timings:
    return Timings(len(prompt_token_ids), answer["prefill_s"], tuple(answer["token_s"]))
