"""Run rungs and keep their readings. Rungs of one group live side by side and take turns."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from augur_gen import Timings
from benchmark.progress import Say
from benchmark.reference import Reference
from benchmark.rung import Rung
from benchmark.settings import Settings
from benchmark.worker_process import WorkerProcess

# Fewer show no spread.
_LEAST_REPEATS = 2


@dataclass
class Reading:
    """What was seen of one rung.

    Attributes:
        rung: which.
        missing: why it was left out; all else is then empty.
        load_s: seconds from the checkpoint to a model ready to run.
        warm_up: of the first, uncounted run.
        load_peak_bytes: most memory taken until the end of the warm-up.
        peak_bytes: most memory taken in the timed runs.
        peak_was_reset: False where `peak_bytes` holds the loading too.
        runs: the timed ones.
        token_ids: of each timed run.
        exactness: as `Exactness`, with `own_text` as `Parting`; None where not compared.
    """

    rung: Rung
    missing: str | None = None
    load_s: float = 0.0
    warm_up: Timings = field(default_factory=lambda: Timings(0, 0.0, ()))
    load_peak_bytes: int | None = None
    peak_bytes: int | None = None
    peak_was_reset: bool = False
    runs: list[Timings] = field(default_factory=list)
    token_ids: list[list[int]] = field(default_factory=list)
    exactness: dict[str, Any] | None = None


class Bout:
    """A worker and its readings."""

    def __init__(self, rung: Rung, worker: WorkerProcess) -> None:
        self.reading = Reading(rung)
        self._worker = worker

    def load(self, settings: Settings) -> bool:
        """Load the model; False where something is missing for it."""
        answer = self._worker.ask("load", **settings.load_arguments(self.reading.rung))
        self.reading.missing = answer["missing"]
        if self.reading.missing is not None:
            return False
        self.reading.load_s = answer["load_s"]
        return True

    def warm_up(self, prompt_token_ids: list[int], capacity: int) -> bool:
        """Reach prefill and decode once, uncounted; False where the rung does not fit the model."""
        answer = self._worker.ask("warm_up", prompt_token_ids=prompt_token_ids, capacity=capacity)
        self.reading.missing = answer["missing"]
        if self.reading.missing is not None:
            return False
        self.reading.warm_up = _timings(prompt_token_ids, answer)
        self.reading.load_peak_bytes = answer["peak_memory_bytes"]
        self.reading.peak_was_reset = answer["peak_was_reset"]
        return True

    def run(self, prompt_token_ids: list[int], max_new_tokens: int) -> None:
        """One timed run more."""
        answer = self._worker.ask(
            "run", prompt_token_ids=prompt_token_ids, max_new_tokens=max_new_tokens
        )
        self.reading.runs.append(_timings(prompt_token_ids, answer))
        self.reading.token_ids.append(answer["token_ids"])

    def finish(self, reference: Reference) -> None:
        """Read the peak, then compare: the comparison takes memory of its own."""
        self.reading.peak_bytes = self._worker.ask("peak")["peak_memory_bytes"]
        arguments = reference.compare_arguments(self.reading.token_ids[-1])
        self.reading.exactness = self._worker.ask("compare", **arguments)


def measure_group(
    group: tuple[Rung, ...], settings: Settings, capacity: int, reference: Reference, say: Say
) -> list[Reading]:
    """Load, warm up, time and compare the rungs of a group."""
    prompt = settings.workload.prompt_token_ids
    with ExitStack() as stack:
        bouts = [Bout(rung, stack.enter_context(settings.worker(rung.name))) for rung in group]
        ready = []
        for bout in bouts:
            name = bout.reading.rung.name
            say(f"{name}: loading")
            loaded = bout.load(settings)
            if loaded:
                say(f"{name}: warming up")
            if loaded and bout.warm_up(prompt, capacity):
                ready.append(bout)
        take_turns(ready, prompt, settings.max_new_tokens, settings, say)
        for bout in ready:
            say(f"{bout.reading.rung.name}: comparing logits with the reference's")
            bout.finish(reference)
        return [bout.reading for bout in bouts]


def take_turns(
    bouts: list[Bout],
    prompt_token_ids: list[int],
    max_new_tokens: int,
    settings: Settings,
    say: Say,
) -> None:
    """Run each in turn, in the other order every other time, so that a drift hits all alike."""
    started_s = time.perf_counter()
    allowed_s = settings.rung_seconds * len(bouts)
    for number in range(settings.repeats):
        spent_s = time.perf_counter() - started_s
        if number >= _LEAST_REPEATS and spent_s * (number + 1) / number > allowed_s:
            break
        for bout in bouts if number % 2 == 0 else reversed(bouts):
            say(f"{bout.reading.rung.name}: run {number + 1} of {settings.repeats}")
            bout.run(prompt_token_ids, max_new_tokens)


def _timings(prompt_token_ids: list[int], answer: dict[str, Any]) -> Timings:
    return Timings(len(prompt_token_ids), answer["prefill_s"], tuple(answer["token_s"]))
