"""Tokens per second of many sequences together, by how many there are and how they are answered."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain, cycle, islice, pairwise
from typing import Any, NamedTuple

from augur.devices import DTYPES
from augur_bench import process
from augur_bench.company import Asked
from augur_bench.errors import BenchError, RungFailedError, RungUnavailableError
from augur_bench.ladder import COMPANY, LADDER, PEERS, PeerName
from augur_bench.measure import Say, turned
from augur_bench.rung import Rung
from augur_bench.settings import Settings
from augur_bench.spread import Spread, percentile
from augur_bench.worker import ManyRun, Worker

ONE_BY_ONE = LADDER["sdpa"]
# As long as short questions are, in a chat template; they do not begin alike, so nobody finds
# another's prefix.
_PROMPT_LENGTHS = (12, 45, 24, 60, 18, 36, 30, 51)
# Eighths of the new tokens asked for, so that not all end at once.
_EIGHTHS = (8, 7, 6, 5)


class Throughput(NamedTuple):
    """For each number of sequences each rung's figures; and why a rung is left out, by its name."""

    points: list[dict[str, Any]]
    left_out: dict[str, str]


def throughput_rungs(rungs: Sequence[Rung], against: PeerName | None) -> list[Rung]:
    """Those of the table: one by one, padded, continuous, then a file's own and the peer's.

    Args:
        rungs: of the run; those of a file that answer many are among them.
        against: the engine to measure beside.
    """
    ours = [ONE_BY_ONE, *COMPANY.values()]
    named = {rung.name for rung in ours}
    others = [one for one in rungs if one.answer_many is not None and one.name not in named]
    peers = [p for name, p in PEERS.items() if against and name == f"{against}-{ONE_BY_ONE.name}"]
    return [*ours, *others, *peers]


def questions(number: int, settings: Settings) -> list[Asked]:
    """That many prompts of unequal lengths, with unequally many tokens to follow.

    Raises:
        BenchError: one is longer than the model's positions.
    """
    tokens = list(chain.from_iterable(settings.prompts))
    lengths, eighths = cycle(_PROMPT_LENGTHS), cycle(_EIGHTHS)
    asked, start = [], 0
    for _ in range(number):
        length = next(lengths)
        prompt = list(islice(cycle(tokens), start, start + length))
        asked.append(Asked(prompt, max(1, settings.max_new_tokens * next(eighths) // 8)))
        start += length
    longest, limit = max(one.num_tokens for one in asked), settings.size.config.num_positions
    if longest > limit:
        raise BenchError(
            f"--sequences: the longest comes to {longest} tokens, but the model has {limit} "
            "positions. Lower --max-new-tokens, or take a model with more positions"
        )
    return asked


def run_throughput(
    asked: Sequence[list[Asked]], rungs: Sequence[Rung], settings: Settings, say: Say = print
) -> Throughput:
    """Answer many sequences in each way, in turns.

    Args:
        asked: of each number of sequences, as `questions` gives them.
        rungs: as `throughput_rungs` gives them.
        settings: of the run.
        say: told what is being done.

    Raises:
        RungFailedError: a rung broke, or gave another number of tokens than was asked for.
    """
    runs: list[dict[str, list[ManyRun]]] = [{} for _ in asked]
    left_out: dict[str, str] = {}
    for turn in range(settings.rounds if asked else 0):
        with ExitStack() as stack:
            workers: dict[str, process.WorkerProcess] = {}
            for rung in turned(rungs, turn):
                say(f"throughput: loading {rung.name}")
                worker = stack.enter_context(process.WorkerProcess(rung.name, settings))
                try:
                    worker.ask(Worker.load, rung.name)
                except RungUnavailableError as error:
                    left_out[rung.name] = str(error)
                    continue
                workers[rung.name] = worker
                worker.ask(Worker.answer_many, asked[0][:2])  # to warm up
            for some, runs_of_some in zip(asked, runs, strict=True):
                for name, worker in workers.items():
                    say(f"{name}: {len(some)} sequences, round {turn + 1} of {settings.rounds}")
                    run = worker.ask(Worker.answer_many, some)
                    _check_answers(name, some, run)
                    runs_of_some.setdefault(name, []).append(run)
    points = [
        _figures(rung, some, runs_of_some[rung.name], runs_of_some, settings)
        for some, runs_of_some in zip(asked, runs, strict=True)
        for rung in rungs
        if rung.name not in left_out
    ]
    return Throughput(points, left_out)


def _check_answers(name: str, asked: list[Asked], run: ManyRun) -> None:
    for place, (one, token_ids) in enumerate(zip(asked, run.token_ids, strict=True)):
        if len(token_ids) != one.num_new_tokens:
            raise RungFailedError(
                f"{name} gave {len(token_ids)} tokens for sequence {place + 1}, expected "
                f"{one.num_new_tokens}"
            )


def _figures(
    rung: Rung,
    asked: list[Asked],
    runs: list[ManyRun],
    others: dict[str, list[ManyRun]],
    settings: Settings,
) -> dict[str, Any]:
    """One rung's, with so many sequences."""
    num_new = sum(one.num_new_tokens for one in asked)
    alone = others[ONE_BY_ONE.name]
    texts = zip(runs[0].token_ids, alone[0].token_ids, strict=True)
    gains = (base.elapsed_s / run.elapsed_s for run, base in zip(runs, alone, strict=True))
    dtype = DTYPES[settings.dtype_of(rung)]
    first_s = [times[0] for run in runs for times in run.token_s]
    between_s = [b - a for run in runs for times in run.token_s for a, b in pairwise(times)]
    percents = {"p50": 50, "p95": 95}
    # The last new token is chosen and never fed.
    needed = sum(settings.size.cache_bytes(one.num_tokens - 1, dtype) for one in asked)
    return {
        "rung": rung.name,
        "num_sequences": len(asked),
        "prompt_tokens": sum(len(one.prompt_token_ids) for one in asked),
        "new_tokens": num_new,
        "tokens_per_s": asdict(Spread.of(num_new / run.elapsed_s for run in runs)),
        "gain": asdict(Spread.of(gains)),
        "ttft_s": {key: percentile(first_s, percent) for key, percent in percents.items()},
        "between_s": {key: percentile(between_s, percent) for key, percent in percents.items()},
        "cache_bytes": settings.size.cache_bytes(runs[0].cache_tokens, dtype),
        "needed_bytes": needed,
        "num_same_texts": sum(ours == theirs for ours, theirs in texts),
    }
