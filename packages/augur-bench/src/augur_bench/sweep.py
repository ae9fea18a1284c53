"""How prefill, decode and cache memory grow with length: cached beside uncached."""

from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from augur.devices import DTYPES
from augur_bench import process
from augur_bench.errors import BenchError
from augur_bench.measure import Say, take_turns, turned
from augur_bench.settings import WARM_UP_TOKENS, Settings, prompt_of_length
from augur_bench.spread import Spread
from augur_bench.worker import Worker
from augur_gen import Timings

# Uncached, the last of these take minutes on two CPU cores and moments on a GPU.
_LENGTHS_ON_CPU: dict[str, tuple[int, ...]] = {
    "prompt": (16, 32, 64, 128, 256),
    "new-tokens": (8, 16, 32, 64),
}
_LENGTHS_ELSEWHERE: dict[str, tuple[int, ...]] = {
    "prompt": (128, 256, 512, 1024, 2048),
    "new-tokens": (32, 64, 128, 256),
}
# Enough for a decode rate; this sweep is about the prompt.
_TOKENS_AFTER_PROMPT = 4


@dataclass
class _Task:
    """A prompt that both rungs continue.

    Attributes:
        prompt_token_ids: fed at once.
        lengths: numbers of new tokens that are reported, rising; a run makes the last, and its
            first tokens are those of all shorter ones.
        timings: of each rung's runs in all rounds, each beside the other's of the same place.
    """

    prompt_token_ids: list[int]
    lengths: list[int]
    timings: dict[str, list[Timings]] = field(
        default_factory=lambda: {"cached": [], "uncached": []}
    )


def sweep_lengths(name: str, asked: list[int] | None, settings: Settings) -> list[int]:
    """The lengths of a sweep: those asked for, or those of the device that the model can take.

    Args:
        name: which length grows, "prompt" or "new-tokens".
        asked: None takes the device's.
        settings: of the run.

    Raises:
        BenchError: a length is too short, or too long for the model; or none is left.
    """
    defaults = (_LENGTHS_ON_CPU if settings.device == "cpu" else _LENGTHS_ELSEWHERE)[name]
    limit = settings.size.config.num_positions
    if asked is None:
        lengths = [length for length in defaults if _total(name, length, settings) <= limit]
        if not lengths:
            raise BenchError(
                f"--sweep {name}: its lengths are {', '.join(map(str, defaults))}, and with prompt "
                f"and new tokens together none fits into the {limit} positions of the model. Name "
                "shorter ones in --sweep-at, or leave --sweep out"
            )
        return lengths
    least = 1 if name == "prompt" else 2
    for length in asked:
        if length < least or _total(name, length, settings) > limit:
            raise BenchError(
                f"--sweep {name}: length {length} is not possible; expected {least} or more, and "
                f"prompt and new tokens together at most {limit}, the model's positions"
            )
    return sorted(set(asked))


def run_sweeps(
    lengths: dict[str, list[int]], settings: Settings, say: Say = print
) -> dict[str, dict[str, Any]]:
    """Measure both rungs at each length, in turns.

    Args:
        lengths: of each sweep, rising, as `sweep_lengths` gives them.
        settings: of the run.
        say: told what is being done.
    """
    tasks = {name: _tasks(name, chosen, settings) for name, chosen in lengths.items()}
    for number in range(settings.rounds if tasks else 0):
        with ExitStack() as stack:
            workers: dict[str, process.WorkerProcess] = {}
            for rung in turned(["cached", "uncached"], number):
                say(f"sweep: loading {rung}")
                workers[rung] = stack.enter_context(process.WorkerProcess(rung, settings))
                workers[rung].ask(Worker.load, rung)
            for task in chain.from_iterable(tasks.values()):
                _run(task, workers, settings, say)
    found: dict[str, dict[str, Any]] = {}
    for name, parts in tasks.items():
        points = [_point(task, num_new, settings) for task in parts for num_new in task.lengths]
        found[name] = {"points": points, "ratio_grows": ratio_grows(points)}
    return found


def ratio_grows(points: list[dict[str, Any]]) -> bool:
    """Whether cached gains on uncached from the shortest length to the longest, beyond noise."""
    first, last = points[0]["decode_ratio"], points[-1]["decode_ratio"]
    return bool(first["high"] < last["low"])


def _total(name: str, length: int, settings: Settings) -> int:
    """Prompt tokens and new tokens."""
    if name == "prompt":
        return length + _TOKENS_AFTER_PROMPT
    return len(settings.prompt_token_ids) + max(length, WARM_UP_TOKENS)


def _tasks(name: str, lengths: list[int], settings: Settings) -> list[_Task]:
    if name == "new-tokens":
        return [_Task(settings.prompt_token_ids, lengths)]
    prompts = [prompt_of_length(length, settings.prompts) for length in lengths]
    return [_Task(prompt, [_TOKENS_AFTER_PROMPT]) for prompt in prompts]


def _run(
    task: _Task, workers: dict[str, process.WorkerProcess], settings: Settings, say: Say
) -> None:
    """One round of a task."""
    prompt, num_new = task.prompt_token_ids, task.lengths[-1]
    for name, worker in workers.items():
        say(f"sweep, {len(prompt)} prompt tokens: warming up {name}")
        worker.ask(Worker.warm_up, prompt, len(prompt) + max(num_new, WARM_UP_TOKENS))
    for name, runs in take_turns(workers, prompt, num_new, settings, say).items():
        task.timings[name] += [run.timings for run in runs]


def _point(task: _Task, num_new: int, settings: Settings) -> dict[str, Any]:
    """Both rungs at one length, as it is reported: seconds for the prompt and for each token."""
    num_prompt = len(task.prompt_token_ids)
    token_s = {
        rung: [sum(run.token_s[1:num_new]) / (num_new - 1) for run in timings]
        for rung, timings in task.timings.items()
    }
    pairs = zip(token_s["cached"], token_s["uncached"], strict=True)
    spreads = {
        **{
            f"{rung}_prefill_s": Spread.of(run.prefill_s for run in timings)
            for rung, timings in task.timings.items()
        },
        **{f"{rung}_token_s": Spread.of(seconds) for rung, seconds in token_s.items()},
        "decode_ratio": Spread.of(slow / fast for fast, slow in pairs),
    }
    return {
        "prompt_tokens": num_prompt,
        "new_tokens": num_new,
        "cache_bytes": settings.size.cache_bytes(num_prompt + num_new, DTYPES[settings.dtype]),
        **{key: asdict(spread) for key, spread in spreads.items()},
    }
