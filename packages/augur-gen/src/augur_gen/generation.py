"""The loop: logits, choice, stop or go on."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from augur_gen.errors import GenerationError
from augur_gen.logprobs import TokenLogprobs, token_logprobs
from augur_gen.sampling import Sampler, greedy
from augur_gen.sampling_params import SamplingParams
from augur_gen.sequence_sampler import SequenceSampler
from augur_gen.steps import Steps
from augur_gen.stopping import FinishReason, StopConditions
from augur_gen.timing import Stopwatch, Timings
from augur_gen.token_ids import checked_token_ids


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
    """

    token_ids: list[int]
    finish_reason: FinishReason | None
    timings: Timings
    sampling: SamplingParams | None = None
    logprobs: list[TokenLogprobs] | None = None


class Generation(Iterator[int]):
    """One sequence being generated: an iterator of token ids, computed when they are asked for.

    It may be left at any token; `result()` then tells what there is. Where a sampler raises, the
    token can be asked for again.

    Args:
        steps: where logits come from.
        prompt_token_ids: at least one.
        stop: when to end.
        device: of the model.
        sampler: from logits to the next token: a function, or parameters to sample with.
        earlier_token_ids: tokens that come before the prompt and are not fed, because a cache holds
            them. A repetition penalty counts them.
        stopwatch: for the timings, and for a limit of time.

    Raises:
        GenerationError: the prompt is empty, or has something else than integers.
    """

    def __init__(
        self,
        steps: Steps,
        prompt_token_ids: Sequence[int],
        stop: StopConditions,
        *,
        device: torch.device,
        sampler: Sampler | SamplingParams = greedy,
        earlier_token_ids: Sequence[int] = (),
        stopwatch: Stopwatch | None = None,
    ) -> None:
        if len(prompt_token_ids) == 0:
            raise GenerationError("the prompt has no tokens; give at least one")
        self._steps = steps
        self._prompt_token_ids = checked_token_ids(prompt_token_ids, "the prompt")
        self._stop = stop
        self._device = device
        self._sampling: SamplingParams | None = None
        if isinstance(sampler, SamplingParams):
            earlier = checked_token_ids(earlier_token_ids, "the earlier tokens")
            sampler = SequenceSampler(sampler, earlier + self._prompt_token_ids)
            self._sampling = sampler.params
        self._sampler = sampler
        self._stopwatch = stopwatch or Stopwatch(device)
        self._began_s: float | None = None
        self._asked_s: float | None = None
        self._prefill_s = 0.0
        self._token_s: list[float] = []
        self._token_ids: list[int] = []
        self._logprobs: list[TokenLogprobs] = []
        self._logits: Tensor | None = None
        self._is_feeding = False
        self._finish_reason: FinishReason | None = None
        # Reentrant: a signal handler may come in while its own thread is in `finish`.
        self._finishing = threading.RLock()

    def __next__(self) -> int:
        """Compute the next token.

        Raises:
            StopIteration: a stop condition was met.
            GenerationError: the forward pass for this token broke off when it was last asked for,
                so what a cache holds is not known.
        """
        if self._finish_reason is not None:
            raise StopIteration
        now_s = self._stopwatch.read()
        began_s = self._began_s = now_s if self._began_s is None else self._began_s
        if self._stop.is_late(now_s - began_s):
            self.finish("time")
            raise StopIteration
        # Kept when the choice fails, as the logits are: nothing is fed twice.
        asked_s = self._asked_s = now_s if self._asked_s is None else self._asked_s
        if self._logits is None:
            self._logits = self._next_logits(asked_s)
        token_id = self._choose(self._logits)
        now_s = self._stopwatch.read()
        self._token_s.append(now_s - asked_s)
        self._token_ids.append(token_id)
        self._logits = self._asked_s = None
        reason = self._stop.reason(len(self._token_ids), token_id, now_s - began_s)
        if reason is not None:
            self.finish(reason)
        return token_id

    def cancel(self) -> None:
        """End it, from any thread: a token under way is completed, no other is begun."""
        self.finish("cancelled")

    def finish(self, reason: FinishReason) -> None:
        """End it, from any thread, for the caller's reason. The first reason stays."""
        with self._finishing:
            if self._finish_reason is None:
                self._finish_reason = reason

    def run(self) -> GenerationResult:
        """Generate to the end."""
        for _ in self:
            pass
        return self.result()

    def result(self) -> GenerationResult:
        """What there is so far."""
        timings = Timings(len(self._prompt_token_ids), self._prefill_s, tuple(self._token_s))
        logprobs = None if self._num_logprobs is None else list(self._logprobs)
        return GenerationResult(
            list(self._token_ids), self._finish_reason, timings, self._sampling, logprobs
        )

    @property
    def _num_logprobs(self) -> int | None:
        return None if self._sampling is None else self._sampling.logprobs

    def _next_logits(self, asked_s: float) -> Tensor:
        if self._is_feeding:
            raise GenerationError(
                "a forward pass of this generation broke off, and what its cache holds is not "
                "known; start a new one"
            )
        self._is_feeding = True
        if self._token_ids:
            logits = self._steps.decode(self._tensor(self._token_ids[-1:]))
        else:
            logits = self._steps.prefill(self._tensor(self._prompt_token_ids))
            self._prefill_s = self._stopwatch.read() - asked_s
        self._is_feeding = False
        return logits

    def _choose(self, logits: Tensor) -> int:
        allowed = self._stop.suppress(logits, len(self._token_ids))
        token_id = int(self._sampler(allowed)[0])
        if self._num_logprobs is not None:
            self._logprobs.append(token_logprobs(logits[0], token_id, self._num_logprobs))
        return token_id

    def _tensor(self, token_ids: list[int]) -> Tensor:
        return torch.tensor([token_ids], dtype=torch.int64, device=self._device)
