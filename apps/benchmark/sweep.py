"""How prefill, decode and cache memory grow with length: cached beside uncached."""

from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum

from augur_gen import Timings
from benchmark.errors import BenchError
from benchmark.ladder import LADDER
from benchmark.measure import Bout, take_turns
from benchmark.progress import Say
from benchmark.settings import Settings
from benchmark.spread import Spread
from benchmark.work import ModelSize
from devices import DTYPES


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
_WARM_UP_TOKENS = 3


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
    if not lengths:
        return {}
    with ExitStack() as stack:
        bouts = []
        for rung in (LADDER["cached"], LADDER["uncached"]):
            say(f"sweep: loading {rung.name}")
            bout = Bout(rung, stack.enter_context(settings.worker(rung.name)))
            bout.load(settings)
            bouts.append(bout)
        points = {SweepName.PROMPT: _prompt_points, SweepName.NEW_TOKENS: _new_token_points}
        return {
            name.value: points[name](bouts, chosen, settings, size, say)
            for name, chosen in lengths.items()
        }


def ratio_grows(points: list[Point]) -> bool:
    """Whether cached gains on uncached from the shortest length to the longest, beyond noise."""
    return points[0].decode_ratio.high < points[-1].decode_ratio.low


def _shape(name: SweepName, length: int, settings: Settings) -> tuple[int, int]:
    """Prompt tokens and new tokens."""
    if name is SweepName.PROMPT:
        return length, _TOKENS_AFTER_PROMPT
    return len(settings.workload.prompt_token_ids), max(length, _WARM_UP_TOKENS)


def _prompt_points(
    bouts: list[Bout], lengths: list[int], settings: Settings, size: ModelSize, say: Say
) -> list[Point]:
    points = []
    for length in lengths:
        prompt = settings.workload.cut(length)
        cached, uncached = _runs(bouts, prompt, _TOKENS_AFTER_PROMPT, settings, say)
        points.append(_point(cached, uncached, _TOKENS_AFTER_PROMPT, settings, size))
    return points


def _new_token_points(
    bouts: list[Bout], lengths: list[int], settings: Settings, size: ModelSize, say: Say
) -> list[Point]:
    # A run holds all shorter ones: its first tokens are theirs.
    cached, uncached = _runs(bouts, settings.workload.prompt_token_ids, lengths[-1], settings, say)
    return [_point(cached, uncached, length, settings, size) for length in lengths]


def _runs(
    bouts: list[Bout], prompt_token_ids: list[int], new_tokens: int, settings: Settings, say: Say
) -> list[list[Timings]]:
    """The runs of each, new ones."""
    capacity = len(prompt_token_ids) + max(new_tokens, _WARM_UP_TOKENS)
    for bout in bouts:
        say(f"sweep, {len(prompt_token_ids)} prompt tokens: warming up {bout.reading.rung.name}")
        bout.warm_up(prompt_token_ids, capacity)
        bout.reading.runs.clear()
    take_turns(bouts, prompt_token_ids, new_tokens, settings, say)
    return [list(bout.reading.runs) for bout in bouts]


def _point(
    cached: list[Timings],
    uncached: list[Timings],
    new_tokens: int,
    settings: Settings,
    size: ModelSize,
) -> Point:
    prompt_tokens = cached[0].num_prompt_tokens
    cached_token_s = [_mean_token_s(run, new_tokens) for run in cached]
    uncached_token_s = [_mean_token_s(run, new_tokens) for run in uncached]
    ratios = (slow / fast for fast, slow in zip(cached_token_s, uncached_token_s, strict=True))
    return Point(
        prompt_tokens=prompt_tokens,
        new_tokens=new_tokens,
        cache_bytes=size.cache_bytes(prompt_tokens + new_tokens, DTYPES[settings.dtype]),
        cached_prefill_s=Spread.of(run.prefill_s for run in cached),
        uncached_prefill_s=Spread.of(run.prefill_s for run in uncached),
        cached_token_s=Spread.of(cached_token_s),
        uncached_token_s=Spread.of(uncached_token_s),
        decode_ratio=Spread.of(ratios),
    )


def _mean_token_s(run: Timings, new_tokens: int) -> float:
    return sum(run.token_s[1:new_tokens]) / (new_tokens - 1)
