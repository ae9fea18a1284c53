"""One rung in a process of its own, so that its memory, threads and compiled code are its own.

Started by `worker_process`; see `serve` for the protocol.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from augur.devices import DTYPES, DTypeName
from augur_bench.environment import compute_environment
from augur_bench.errors import RungFailedError, RungUnavailableError
from augur_bench.exactness import find_parting, measure_exactness
from augur_bench.limits import measure_bandwidth, measure_matmul
from augur_bench.peak_memory import peak_memory, reset_peak_memory
from augur_bench.reference_logits import Continuation, open_rows, record
from augur_bench.rung import NewSteps
from augur_bench.rung_choice import find_rung
from augur_bench.serve import Command, serve
from augur_bench.workload import WARM_UP_TOKENS
from augur_gen import Generation, GenerationResult, StopConditions, Stopwatch, greedy

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}

EXIT_INTERRUPTED = 130  # as shells report a program that Ctrl-C ended: 128 + SIGINT


class Worker:
    """The commands; each takes and gives plain JSON values.

    Args:
        device: to run on.
        threads: for torch; None leaves its own choice.
    """

    def __init__(self, device: str, threads: int | None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self._device = torch.device(device)
        self._model: Any = None
        self._new_steps: NewSteps | None = None

    def environment(self) -> dict[str, Any]:
        """Where and with what this process computes."""
        return compute_environment(self._device)

    def limits(self, dtypes: list[DTypeName]) -> dict[str, Any]:
        """Read the machine's limits once."""
        return {
            "bytes_per_s": measure_bandwidth(self._device),
            "flops_per_s": {name: measure_matmul(self._device, DTYPES[name]) for name in dtypes},
        }

    def load(
        self, rung: str, rungs_from: str | None, folder: str, dtype: DTypeName
    ) -> dict[str, Any]:
        """Load the rung's model, or say what is missing for it."""
        self._rung = find_rung(rung, None if rungs_from is None else Path(rungs_from))
        missing = self._rung.missing(self._device)
        if missing is not None and not isinstance(missing, str):
            raise RungFailedError(f"missing gave {missing!r}, expected a sentence or None")
        if missing is not None:
            return {"missing": missing}
        stopwatch = Stopwatch(self._device)
        started_s = stopwatch.read()
        self._model = self._rung.load(Path(folder), self._device, DTYPES[dtype])
        return {"load_s": stopwatch.read() - started_s, "missing": None}

    def warm_up(self, prompt_token_ids: list[int], capacity: int) -> dict[str, Any]:
        """Get ready for sequences of up to `capacity` tokens, and run each phase once."""
        try:
            self._new_steps = self._rung.prepare(self._model, capacity)
        except RungUnavailableError as error:
            return {"missing": str(error)}
        answer = self.run(prompt_token_ids, WARM_UP_TOKENS)
        answer["missing"] = None
        answer["peak_memory_bytes"] = peak_memory(self._device)
        answer["peak_was_reset"] = reset_peak_memory(self._device)
        return answer

    def run(self, prompt_token_ids: list[int], max_new_tokens: int) -> dict[str, Any]:
        """Generate once; no EOS ends it, so every run makes as many tokens as any other."""
        row_sums: list[Tensor] = []
        result = run_once(
            self._ready_steps, prompt_token_ids, max_new_tokens, self._device, row_sums=row_sums
        )
        return {
            "prefill_s": result.timings.prefill_s,
            "token_s": list(result.timings.token_s),
            "token_ids": result.token_ids,
            "row_sums": [int(row_sum) for row_sum in row_sums],
        }

    def peak(self) -> dict[str, Any]:
        """The most memory taken since the warm-up."""
        return {"peak_memory_bytes": peak_memory(self._device)}

    def record(
        self, prompts: list[list[int]], num_tokens: list[int], logits: str, vocab_size: int
    ) -> dict[str, Any]:
        """Continue the prompts and write the logits into a file."""
        rows = open_rows(Path(logits), sum(num_tokens), vocab_size)
        chosen = record(self._ready_steps, prompts, num_tokens, rows, self._device)
        return {"token_ids": chosen}

    def compare(
        self,
        timed: dict[str, Any],
        checks: list[dict[str, Any]],
        own_token_ids: list[int],
        logits: str,
        num_rows: int,
        vocab_size: int,
    ) -> dict[str, Any]:
        """Hold this rung against the reference.

        Args:
            timed: the reference's continuation of the prompt that was timed.
            checks: its continuations of the check prompts.
            own_token_ids: the rung's.
            logits: the reference's file.
            num_rows: of the file.
            vocab_size: width of its rows.
        """
        rows = open_rows(Path(logits), num_rows, vocab_size)
        fed = [Continuation(**continuation) for continuation in (timed, *checks)]
        found = measure_exactness(self._ready_steps, fed, rows, self._device)
        parting = find_parting(own_token_ids, fed[0], rows)
        return {**asdict(found), "own_text": asdict(parting)}

    @property
    def _ready_steps(self) -> NewSteps:
        if self._new_steps is None:
            raise RuntimeError("a worker was asked to run before its warm-up")
        return self._new_steps


def run_once(
    new_steps: NewSteps,
    prompt_token_ids: list[int],
    max_new_tokens: int,
    device: torch.device,
    stopwatch: Stopwatch | None = None,
    row_sums: list[Tensor] | None = None,
) -> GenerationResult:
    """Generate greedily to the full length, timed.

    Args:
        new_steps: of the rung.
        prompt_token_ids: the prompt.
        max_new_tokens: after it.
        device: to run on.
        stopwatch: to time it with; None takes the device's.
        row_sums: given a checksum of each row of logits: any bit that changes alone changes it.

    Raises:
        RungFailedError: a logit is -inf.
        GenerationError: a logit is +inf or not a number.
    """
    lowest: list[Tensor] = []

    def keep_lowest_and_choose(logits: Tensor) -> Tensor:
        # The choice refuses NaN and +inf itself. Passes over one row, and nothing waits for them:
        # microseconds beside a forward pass.
        lowest.append(logits.amin())
        if row_sums is not None:
            row_sums.append(logits.view(_INTEGERS[logits.element_size()]).sum())
        return greedy(logits)

    steps = new_steps()  # the cache's memory is taken here, before the clock is read
    stop = StopConditions(max_new_tokens)
    result = Generation(
        steps,
        prompt_token_ids,
        stop,
        device=device,
        sampler=keep_lowest_and_choose,
        stopwatch=stopwatch,
    ).run()
    for num_new_tokens, low in enumerate(lowest):
        if not low.isfinite():
            raise RungFailedError(f"after {num_new_tokens} new tokens, a logit is {float(low)}")
    return result


def commands(worker: Worker) -> dict[str, Command]:
    """What can be asked of a worker, by name."""
    names = ("environment", "limits", "load", "warm_up", "run", "peak", "record", "compare")
    return {name: getattr(worker, name) for name in names}


def main() -> None:
    """Serve as `worker.py DEVICE [THREADS]`."""
    device, *threads = sys.argv[1:]
    try:
        serve(commands(Worker(device, int(threads[0]) if threads else None)))
    except (KeyboardInterrupt, BrokenPipeError):
        # The one who started us ends too, and says why.
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
