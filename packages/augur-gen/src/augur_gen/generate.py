"""The loop: logits, choice, stop or go on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from augur_gen.cache import StaticKVCache
from augur_gen.errors import GenerationError
from augur_gen.sampling import Sampler, greedy
from augur_gen.steps import CachedSteps, Steps, UncachedSteps
from augur_gen.stopping import FinishReason, StopConditions
from augur_gen.timing import Stopwatch, Timings
from augur_model import KVCache, QwenForCausalLM


@dataclass(frozen=True)
class GenerationResult:
    """What a generation has come to.

    Attributes:
        token_ids: the new tokens, a stopping EOS included, the prompt left out.
        finish_reason: "eos", "length", or None where it was not carried to its end.
        timings: seconds, measured as the tokens were made.
    """

    token_ids: list[int]
    finish_reason: FinishReason | None
    timings: Timings


class Generation(Iterator[int]):
    """One sequence being generated: an iterator of token ids, computed when they are asked for.

    It may be left at any token; `result()` then tells what there is.

    Args:
        steps: where logits come from.
        prompt_token_ids: at least one.
        stop: when to end.
        device: of the model.
        sampler: from logits to the next token.
        stopwatch: for the timings.

    Raises:
        GenerationError: the prompt is empty.
    """

    def __init__(
        self,
        steps: Steps,
        prompt_token_ids: Sequence[int],
        stop: StopConditions,
        *,
        device: torch.device,
        sampler: Sampler = greedy,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        if len(prompt_token_ids) == 0:
            raise GenerationError("the prompt has no tokens; give at least one")
        self._steps = steps
        self._prompt_token_ids = list(prompt_token_ids)
        self._stop = stop
        self._device = device
        self._sampler = sampler
        self._stopwatch = stopwatch or Stopwatch(device)
        self._prefill_s = 0.0
        self._token_s: list[float] = []
        self._token_ids: list[int] = []
        self._finish_reason: FinishReason | None = None

    def __next__(self) -> int:
        """Compute the next token.

        Raises:
            StopIteration: a stop condition was met.
        """
        if self._finish_reason is not None:
            raise StopIteration
        started_s = self._stopwatch.read()
        if self._token_ids:
            logits = self._steps.decode(self._tensor(self._token_ids[-1:]))
        else:
            logits = self._steps.prefill(self._tensor(self._prompt_token_ids))
            self._prefill_s = self._stopwatch.read() - started_s
        token_id = int(self._sampler(logits)[0])
        self._token_s.append(self._stopwatch.read() - started_s)
        self._token_ids.append(token_id)
        self._finish_reason = self._stop.reason(len(self._token_ids), token_id)
        return token_id

    def run(self) -> GenerationResult:
        """Generate to the end."""
        for _ in self:
            pass
        return self.result()

    def result(self) -> GenerationResult:
        """What there is so far."""
        timings = Timings(len(self._prompt_token_ids), self._prefill_s, tuple(self._token_s))
        return GenerationResult(list(self._token_ids), self._finish_reason, timings)

    def _tensor(self, token_ids: list[int]) -> torch.Tensor:
        return torch.tensor([token_ids], dtype=torch.int64, device=self._device)


def generate(
    model: QwenForCausalLM,
    prompt_token_ids: Sequence[int],
    stop: StopConditions,
    *,
    sampler: Sampler = greedy,
    cache: KVCache | None = None,
    chunk_size: int | None = None,
    use_cache: bool = True,
    stopwatch: Stopwatch | None = None,
) -> Generation:
    """Generate the continuation of one prompt.

    Args:
        model: the network.
        prompt_token_ids: at least one, each in `0 .. vocab_size - 1`.
        stop: when to end.
        sampler: greedy, the raw argmax, unless another is given.
        cache: continue after what it holds. Left out: a new one of just the size needed.
        chunk_size: prompt tokens for each forward pass of the prefill. Left out: all at once.
        use_cache: False recomputes the whole sequence for every token: slow, kept as the baseline.
        stopwatch: for the timings.

    Returns:
        an iterator of token ids; nothing is computed before the first is asked for.

    Raises:
        GenerationError: an empty prompt, an id outside the vocabulary, more tokens than the
            model has positions, or options that exclude each other.
        CacheFullError: prompt and new tokens do not fit into `cache`.
    """
    _check_token_ids(prompt_token_ids, model.config.vocab_size)
    num_tokens = len(prompt_token_ids) + stop.max_new_tokens
    _check_positions(model, num_tokens + (cache.length if cache is not None else 0))
    steps: Steps
    if use_cache:
        cache = StaticKVCache.for_model(model, num_tokens) if cache is None else cache
        cache.check_room(num_tokens)
        steps = CachedSteps(model, cache, chunk_size=chunk_size)
    elif cache is not None or chunk_size is not None:
        raise GenerationError("use_cache=False takes neither a cache nor a chunk_size")
    else:
        steps = UncachedSteps(model)
    return Generation(
        steps, prompt_token_ids, stop, device=model.device, sampler=sampler, stopwatch=stopwatch
    )


def _check_token_ids(token_ids: Sequence[int], vocab_size: int) -> None:
    for index, token_id in enumerate(token_ids):
        if not 0 <= token_id < vocab_size:
            raise GenerationError(
                f"token {index} of the prompt is {token_id}; the model's vocabulary is "
                f"0 to {vocab_size - 1}"
            )


def _check_positions(model: QwenForCausalLM, num_tokens: int) -> None:
    limit = model.config.max_position_embeddings
    if num_tokens > limit:
        raise GenerationError(
            f"prompt and max_new_tokens come to {num_tokens} tokens; the model has {limit} "
            "positions. Shorten the prompt or ask for fewer tokens"
        )
