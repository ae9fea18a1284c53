"""What a rung's own process does, so that its memory, threads and compiled code are its own."""

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

from augur.devices import DTYPES, DTypeName
from augur_bench import exactness
from augur_bench.company import Asked
from augur_bench.errors import RungFailedError, RungUnavailableError
from augur_bench.limits import Limits, read_limits
from augur_bench.machine import compute_environment, peak_memory, reset_peak_memory
from augur_bench.rung_choice import find_rung
from augur_bench.settings import WARM_UP_TOKENS, Settings
from augur_gen import Generation, Steps, StopConditions, Stopwatch, Timings, greedy

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Run:
    """A text generated greedily to its full length.

    Attributes:
        timings: of each phase.
        token_ids: the new tokens.
        row_sums: a checksum of the bits of each row of logits: any bit that changes alone changes
            it.
        peak_bytes: most memory taken by its end since the warm-up's, and by that since the start.
    """

    timings: Timings
    token_ids: list[int]
    row_sums: list[int]
    peak_bytes: int | None


@dataclass(frozen=True)
class ManyRun:
    """Many sequences answered.

    Attributes:
        elapsed_s: seconds until all had ended.
        token_s: of each sequence, seconds from the beginning until each of its tokens was there.
        token_ids: of each sequence, the new tokens.
        cache_tokens: that room was taken for at most.
    """

    elapsed_s: float
    token_s: list[list[float]]
    token_ids: list[list[int]]
    cache_tokens: int


class Worker:
    """What can be asked of a rung's process.

    Args:
        settings: of the bench's run.
        stopwatch: None takes the device's.
    """

    def __init__(self, settings: Settings, stopwatch: Stopwatch | None = None) -> None:
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        self._settings = settings
        self._device = torch.device(settings.device)
        self._stopwatch = stopwatch or Stopwatch(self._device)

    def machine(self, dtypes: set[DTypeName]) -> tuple[dict[str, Any], Limits]:
        """What this process computes with, and what the machine allows: read once more."""
        return compute_environment(self._device), read_limits(self._device, dtypes)

    def load(self, name: str) -> float:
        """Load the rung's network: seconds from the checkpoint to a network ready to run.

        Raises:
            RungUnavailableError: something is missing for it.
        """
        settings = self._settings
        rung = find_rung(name, settings.rungs_from)
        missing = None if rung.missing is None else rung.missing(self._device)
        if missing is not None and not isinstance(missing, str):
            raise RungFailedError(f"missing gave {missing!r}, expected a sentence or None")
        if missing is not None:
            raise RungUnavailableError(missing)
        dtype = DTYPES[settings.dtype_of(rung)]
        started_s = self._stopwatch.read()
        self._answer_many = rung.answer_many
        self._candidate = rung.open(settings.folder, self._device, dtype)
        return self._stopwatch.read() - started_s

    def warm_up(self, prompt_token_ids: list[int], capacity: int) -> tuple[Run, bool]:
        """Get ready for sequences of up to `capacity` tokens, and run each phase once, uncounted.

        Returns:
            the run, and whether the peak of memory could be begun anew behind it.

        Raises:
            RungUnavailableError: the rung does not go with the network.
        """
        self._new_steps = partial(self._candidate.new_steps, self._candidate.model, capacity)
        return self.run(prompt_token_ids, WARM_UP_TOKENS), reset_peak_memory(self._device)

    def run(self, prompt_token_ids: list[int], max_new_tokens: int) -> Run:
        """Generate once; no EOS ends it, so every run makes as many tokens as any other."""
        steps = self._new_steps()  # the cache's memory is taken here, before the clock is read
        return run_once(steps, prompt_token_ids, max_new_tokens, self._device, self._stopwatch)

    def answer_many(self, asked: list[Asked]) -> ManyRun:
        """Answer many sequences; the cache's memory is taken while the clock runs."""
        assert self._answer_many is not None  # only such rungs are asked
        token_s: list[list[float]] = [[] for _ in asked]
        token_ids: list[list[int]] = [[] for _ in asked]
        began_s = self._stopwatch.read()

        def tell(new: Mapping[int, int]) -> None:
            now_s = self._stopwatch.read() - began_s
            for place, token_id in new.items():
                token_s[place].append(now_s)
                token_ids[place].append(token_id)

        cache_tokens = self._answer_many(self._candidate.model, asked, tell)
        return ManyRun(self._stopwatch.read() - began_s, token_s, token_ids, cache_tokens)

    def record(self) -> None:
        """Write the reference: the timed prompt continued, and the others behind it."""
        settings = self._settings
        texts = [(settings.prompt_token_ids, settings.max_new_tokens)]
        texts += [(prompt, settings.check_tokens) for prompt in settings.prompts]
        continuations = [
            exactness.continue_greedily(self._new_steps(), prompt, num_new, self._device)
            for prompt, num_new in texts
        ]
        exactness.save_reference(continuations, settings.reference_file)

    def compare(self, own_token_ids: list[int]) -> dict[str, Any]:
        """Hold this rung against the reference; its own tokens are those of a timed run."""
        reference = exactness.load_reference(self._settings.reference_file)
        return exactness.measure_exactness(self._new_steps, own_token_ids, reference, self._device)


def run_once(
    steps: Steps,
    prompt_token_ids: list[int],
    max_new_tokens: int,
    device: torch.device,
    stopwatch: Stopwatch | None = None,
) -> Run:
    """Generate greedily to the full length, timed.

    Args:
        steps: of a new sequence.
        prompt_token_ids: the prompt.
        max_new_tokens: after it.
        device: to run on.
        stopwatch: to time it with; None takes the device's.

    Raises:
        RungFailedError: a logit is -inf.
        GenerationError: a logit is +inf or not a number.
    """
    lowest: list[Tensor] = []
    row_sums: list[Tensor] = []

    def look_and_choose(logits: Tensor) -> Tensor:
        # The choice refuses NaN and +inf itself. Passes over one row, and nothing waits for them:
        # microseconds beside a forward pass.
        lowest.append(logits.amin())
        row_sums.append(logits.view(_INTEGERS[logits.element_size()]).sum())
        return greedy(logits)

    stop = StopConditions(max_new_tokens)
    result = Generation(
        steps, prompt_token_ids, stop, device=device, sampler=look_and_choose, stopwatch=stopwatch
    ).run()
    peak_bytes = peak_memory(device)
    for num_new_tokens, low in enumerate(lowest):
        if not low.isfinite():
            raise RungFailedError(f"after {num_new_tokens} new tokens, a logit is {float(low)}")
    sums = [int(row_sum) for row_sum in row_sums]
    return Run(result.timings, result.token_ids, sums, peak_bytes)


def serve(connection: "Connection[Any, Any]", settings: Settings) -> None:
    """Do what the other end asks, a method's name and its arguments, until that end is closed."""
    # What a rung prints belongs to stderr: stdout is the result's.
    os.dup2(2 if sys.stderr else os.open(os.devnull, os.O_WRONLY), 1)
    # Nothing compiled by an earlier process is found: the time to compile is always all of it.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(dir=settings.scratch)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        signal.signal(signal.SIGTERM, _end)
        worker = Worker(settings)
        while True:
            connection.send(answer(worker, *connection.recv()))


def _end(number: int, _frame: object) -> None:
    """Being ended is an end like any other: a rung can stop what it started itself."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def answer(
    worker: Worker, command: str, arguments: tuple[Any, ...]
) -> tuple[type[Exception] | None, Any]:
    """Carry out one request: None and what it gave, or a kind of error and its message."""
    try:
        return None, getattr(worker, command)(*arguments)
    except RungUnavailableError as error:
        return RungUnavailableError, str(error)
    except (Exception, SystemExit) as error:  # a rung must not end the process unheard
        if type(error).__module__.startswith("augur"):
            return RungFailedError, str(error) or type(error).__name__
        traceback.print_exc()  # not an error of ours, whose message says all, but somebody's bug
        return RungFailedError, f"{type(error).__name__}: {error}"
