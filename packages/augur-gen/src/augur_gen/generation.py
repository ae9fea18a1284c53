"""The loop: feed, choose, stop or go on."""

import collections.abc
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from augur_gen.errors import GenerationError
from augur_gen.logprobs import TokenLogprobs
from augur_gen.sampling import Sampler, greedy
from augur_gen.sampling_params import SamplingParams
from augur_gen.sequence import Constraint, Sequence
from augur_gen.steps import Steps
from augur_gen.stopping import FinishReason, StopConditions
from augur_gen.timing import GenerationClock, Stopwatch, Timings


@dataclass(frozen=True)
class GenerationResult:
    """What a generation has come to.

    Attributes:
        token_ids: the new tokens, a stopping EOS included, the prompt left out.
        finish_reason: None where it was not carried to its end.
        timings: seconds, measured as the tokens were made.
        sampling: the parameters it was sampled with, the seed in use among them: with these it can
            be repeated. None where a function chose.
        logprobs: one for each token; None where they were not asked for.
        num_reused_tokens: of the prompt, that were found stored and not fed.
    """

    token_ids: list[int]
    finish_reason: FinishReason | None
    timings: Timings
    sampling: SamplingParams | None = None
    logprobs: list[TokenLogprobs] | None = None
    num_reused_tokens: int = 0


class Generation(Iterator[int]):
    """One sequence being generated: an iterator of token ids, computed when they are asked for.

    It may be left at any token; `result()` then tells what there is. Where a sampler raises, the
    token can be asked for again.

    Args:
        steps: where logits come from.
        prompt_token_ids: at least one.
        stop: when to end.
        device: of the model.
        sampler: as `Sequence` takes it, and so are `constraint` and `earlier_token_ids`.
        stopwatch: for the timings, and for a limit of time.

    Raises:
        GenerationError: the prompt is empty, or has something else than integers.
    """

    def __init__(
        self,
        steps: Steps,
        prompt_token_ids: collections.abc.Sequence[int],
        stop: StopConditions,
        *,
        device: torch.device,
        sampler: Sampler | SamplingParams = greedy,
        constraint: Constraint | None = None,
        earlier_token_ids: collections.abc.Sequence[int] = (),
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self._sequence = Sequence(
            prompt_token_ids,
            stop,
            sampler=sampler,
            constraint=constraint,
            earlier_token_ids=earlier_token_ids,
        )
        self._steps = steps
        self._device = device
        self._clock = GenerationClock(stopwatch or Stopwatch(device))
        self._logits: Tensor | None = None
        self._is_feeding = False

    def __next__(self) -> int:
        """Compute the next token.

        Raises:
            StopIteration: a stop condition was met.
            GenerationError: the forward pass for this token broke off when it was last asked for,
                so what a cache holds is not known.
        """
        sequence = self._sequence
        if sequence.finish_reason is None:
            sequence.look_at_time(self._clock.ask())
        if sequence.finish_reason is not None:
            raise StopIteration
        if self._logits is None:  # else the last choice failed: nothing is fed twice
            self._logits = self._feed(sequence.next_input)
        token_id = sequence.take(self._logits)
        self._logits = None
        sequence.look_at_time(self._clock.receive())
        return token_id

    def _feed(self, token_ids: list[int]) -> Tensor:
        if self._is_feeding:
            raise GenerationError(
                "a forward pass of this generation broke off, and what its cache holds is not "
                "known; start a new one"
            )
        self._is_feeding = True
        fed = torch.tensor([token_ids], dtype=torch.int64, device=self._device)
        if self._sequence.token_ids:
            logits = self._steps.decode(fed)
        else:
            logits = self._steps.prefill(fed)
            self._clock.prefilled()
        self._is_feeding = False
        return logits

    def cancel(self) -> None:
        """End it, from any thread: a token under way is completed, no other is begun."""
        self.finish("cancelled")

    def finish(self, reason: FinishReason) -> None:
        """End it, from any thread, for the caller's reason. The first reason stays."""
        self._sequence.finish(reason)

    def run(self) -> GenerationResult:
        """Generate to the end."""
        for _ in self:
            pass
        return self.result()

    def result(self) -> GenerationResult:
        """What there is so far."""
        sequence = self._sequence
        return GenerationResult(
            list(sequence.token_ids),
            sequence.finish_reason,
            self._clock.timings(len(sequence.prompt_token_ids)),
            sequence.sampling,
            None if sequence.logprobs is None else list(sequence.logprobs),
        )
