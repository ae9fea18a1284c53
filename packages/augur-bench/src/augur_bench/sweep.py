"""How prefill, decode and cache memory grow with length: cached beside uncached."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from augur.devices import DTYPES
from augur_bench.errors import BenchError
from augur_bench.ladder import LADDER
from augur_bench.measure import Bout, Round, take_turns, turned
from augur_bench.progress import Say
from augur_bench.settings import Settings
from augur_bench.spread import Spread
from augur_bench.work import ModelSize
from augur_bench.workload import WARM_UP_TOKENS
from augur_gen import Timings


class SweepName(StrEnum):
    """Which length grows."""

    PROMPT = "prompt"
    NEW_TOKENS = "new-tokens"


# Uncached, the last of these take minutes on two CPU cores and moments on a GPU.
_LENGTHS_ON_CPU: dict[SweepName, tuple[int, ...]] = {
    SweepName.PROMPT: (16, 32, 64, 128, 256),
    SweepName.NEW_TOKENS: (8, 16, 32, 64),
}
_LENGTHS_ELSEWHERE: dict[SweepName, tuple[int, ...]] = {
    SweepName.PROMPT: (128, 256, 512, 1024, 2048),
    SweepName.NEW_TOKENS: (32, 64, 128, 256),
}
# Enough for a decode rate; this sweep is about the prompt.
_TOKENS_AFTER_PROMPT = 4


@dataclass(frozen=True)
class Point:
    """Both rungs at one length.

    Attributes:
        prompt_tokens: fed at once.
        new_tokens: generated.
        cache_bytes: of a cache that just holds them all.
        cached_prefill_s: seconds for the prompt.
        uncached_prefill_s: as above.
        cached_token_s: seconds for a token after the first, mean of a run.
        uncached_token_s: as above.
        decode_ratio: how many times faster cached decodes, from runs that stood side by side.
    """

    prompt_tokens: int
    new_tokens: int
    cache_bytes: int
    cached_prefill_s: Spread
    uncached_prefill_s: Spread
    cached_token_s: Spread
    uncached_token_s: Spread
    decode_ratio: Spread


@dataclass
class _Task:
    """A prompt that both rungs continue.

    Attributes:
        prompt_token_ids: fed at once.
        lengths: numbers of new tokens that are reported, rising; a run makes the last.
        cached: the runs of the one rung, in all rounds.
        uncached: those of the other, each beside the one of the same place.
    """

    prompt_token_ids: list[int]
    lengths: list[int]
    cached: list[Timings] = field(default_factory=list)
    uncached: list[Timings] = field(default_factory=list)


def sweep_lengths(
    name: SweepName, asked: list[int] | None, settings: Settings, size: ModelSize
) -> list[int]:
    """The lengths of a sweep: those asked for, or those of the device that the model can take.

    Raises:
        BenchError: a length is too short, or too long for the model; or none is left.
    """
    defaults = _LENGTHS_ON_CPU if settings.device == "cpu" else _LENGTHS_ELSEWHERE
    limit = size.config.num_positions
    if asked is None:
        lengths = [
            length for length in defaults[name] if sum(_shape(name, length, settings)) <= limit
        ]
        if not lengths:
            raise BenchError(
                f"--sweep {name}: its lengths are {', '.join(map(str, defaults[name]))}, and with "
                f"prompt and new tokens together none fits into the {limit} positions of the "
                "model. Name shorter ones in --sweep-at, or leave --sweep out"
            )
        return lengths
    least = 1 if name is SweepName.PROMPT else 2
    for length in asked:
        if length < least or sum(_shape(name, length, settings)) > limit:
            raise BenchError(
                f"--sweep {name}: length {length} is not possible; expected {least} or more, and "
                f"prompt and new tokens together at most {limit}, the model's positions"
            )
    return sorted(set(asked))


def run_sweeps(
    lengths: dict[SweepName, list[int]], settings: Settings, size: ModelSize, say: Say
) -> dict[str, list[Point]]:
    """Measure both rungs at each length, in turns.

    Args:
        lengths: of each sweep, rising, as `sweep_lengths` gives them.
        settings: of the run.
        size: of the model.
        say: told what is being done.
    """
    tasks = {name: _tasks(name, chosen, settings) for name, chosen in lengths.items()}
    for number in range(settings.rounds if tasks else 0):
        with ExitStack() as stack:
            bouts = {
                rung.name: Bout(rung, stack.enter_context(settings.worker(rung.name)))
                for rung in turned([LADDER["cached"], LADDER["uncached"]], number)
            }
            for name, bout in bouts.items():
                say(f"sweep: loading {name}")
                bout.load(settings)
            for task in chain.from_iterable(tasks.values()):
                _run(task, bouts, settings, say)
    return {
        name.value: [
            _point(task, new_tokens, settings, size)
            for task in tasks[name]
            for new_tokens in task.lengths
        ]
        for name in tasks
    }


def ratio_grows(points: list[Point]) -> bool:
    """Whether cached gains on uncached from the shortest length to the longest, beyond noise."""
    return points[0].decode_ratio.high < points[-1].decode_ratio.low


def _shape(name: SweepName, length: int, settings: Settings) -> tuple[int, int]:
    """Prompt tokens and new tokens."""
    if name is SweepName.PROMPT:
        return length, _TOKENS_AFTER_PROMPT
    return len(settings.workload.prompt_token_ids), max(length, WARM_UP_TOKENS)


def _tasks(name: SweepName, lengths: list[int], settings: Settings) -> list[_Task]:
    if name is SweepName.PROMPT:
        return [_Task(settings.workload.cut(length), [_TOKENS_AFTER_PROMPT]) for length in lengths]
    # A run holds all shorter ones: its first tokens are theirs.
    return [_Task(settings.workload.prompt_token_ids, lengths)]


def _run(task: _Task, bouts: dict[str, Bout], settings: Settings, say: Say) -> None:
    """One round of a task."""
    num_prompt, num_new = len(task.prompt_token_ids), task.lengths[-1]
    for name, bout in bouts.items():
        say(f"sweep, {num_prompt} prompt tokens: warming up {name}")
        bout.warm_up(task.prompt_token_ids, num_prompt + max(num_new, WARM_UP_TOKENS))
        bout.round = Round()
    take_turns(list(bouts.values()), task.prompt_token_ids, num_new, settings, say)
    task.cached += bouts["cached"].round.runs
    task.uncached += bouts["uncached"].round.runs


def _point(task: _Task, new_tokens: int, settings: Settings, size: ModelSize) -> Point:
    prompt_tokens = len(task.prompt_token_ids)
    cached_token_s = [_mean_token_s(run, new_tokens) for run in task.cached]
    uncached_token_s = [_mean_token_s(run, new_tokens) for run in task.uncached]
    ratios = (slow / fast for fast, slow in zip(cached_token_s, uncached_token_s, strict=True))
    return Point(
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        cache_bytes=size.cache_bytes(prompt_tokens + new_tokens, DTYPES[settings.dtype]),
        cached_prefill_s=Spread.of(run.prefill_s for run in task.cached),
        uncached_prefill_s=Spread.of(run.prefill_s for run in task.uncached),
        cached_token_s=Spread.of(cached_token_s),
        uncached_token_s=Spread.of(uncached_token_s),
        decode_ratio=Spread.of(ratios),
    )


def _mean_token_s(run: Timings, new_tokens: int) -> float:
    return sum(run.token_s[1:new_tokens]) / (new_tokens - 1)
