"""The state of one sequence: what is said, how the next token is chosen, and whether it is done."""

import collections.abc
from typing import Protocol

import torch
from torch import Tensor

from augur_gen.checked_values import checked_token_ids
from augur_gen.errors import GenerationError
from augur_gen.logprobs import TokenLogprobs, token_logprobs
from augur_gen.sampling import Sampler, greedy
from augur_gen.sampling_params import SamplingParams
from augur_gen.sequence_sampler import SequenceSampler
from augur_gen.stopping import FinishReason, StopConditions


class Constraint(Protocol):
    """What may be said next, a grammar say. One serves one sequence."""

    def mask(self, logits: Tensor, /) -> Tensor:
        """`[1, vocab_size]`, a copy that may be written into -> the same, -inf where forbidden."""
        ...

    def accept(self, token_id: int, /) -> None:
        """This token, which `mask` left, was chosen."""
        ...


class Sequence:
    """One sequence, fed and told its logits by whoever drives it.

    It knows of no model, cache, clock or thread, so one driver can step many: feed `next_input`,
    `take` the logits of what follows, until there is a `finish_reason`.

    Args:
        prompt_token_ids: at least one.
        stop: when to end.
        sampler: from logits to the next token: a function, or parameters to sample with.
        constraint: what it may choose from. Bias, penalties and cuts act on what is left.
        earlier_token_ids: tokens that come before the prompt and are not fed, because a cache holds
            them. A repetition penalty counts them.

    Attributes:
        prompt_token_ids: as given.
        stop: as given.
        token_ids: the new tokens so far.
        sampling: the parameters, with the seed in use; None where a function chooses.
        logprobs: one for each new token; None where they were not asked for.

    Raises:
        GenerationError: the prompt is empty, or has something else than integers.
    """

    def __init__(
        self,
        prompt_token_ids: collections.abc.Sequence[int],
        stop: StopConditions,
        *,
        sampler: Sampler | SamplingParams = greedy,
        constraint: Constraint | None = None,
        earlier_token_ids: collections.abc.Sequence[int] = (),
    ) -> None:
        if len(prompt_token_ids) == 0:
            raise GenerationError("the prompt has no tokens; give at least one")
        self.prompt_token_ids = checked_token_ids(prompt_token_ids, "the prompt")
        self.stop = stop
        self.token_ids: list[int] = []
        self.sampling: SamplingParams | None = None
        num_logprobs = None
        if isinstance(sampler, SamplingParams):
            earlier = checked_token_ids(earlier_token_ids, "the earlier tokens")
            sampler = SequenceSampler(sampler, earlier + self.prompt_token_ids)
            self.sampling = sampler.params
            num_logprobs = sampler.params.logprobs
        self.logprobs: list[TokenLogprobs] | None = None if num_logprobs is None else []
        self._num_logprobs = num_logprobs or 0
        self._sampler = sampler
        self._constraint = constraint
        self._chosen: int | None = None  # by the sampler, and not accepted yet
        self._ended: dict[str, FinishReason] = {}

    @property
    def next_input(self) -> list[int]:
        """What is to be fed next: the prompt, and then each token that was chosen."""
        return self.token_ids[-1:] or self.prompt_token_ids

    def take(self, logits: Tensor) -> int:
        """Choose the next token, keep it, and see whether it is the last.

        Where this raises, no token is kept, and it can be called again with the same logits: what
        was drawn for them stands.

        Args:
            logits: `[1, vocab_size]`, what the model says follows `next_input`.

        Raises:
            GenerationError: no token can be chosen.
        """
        if self._chosen is None:
            allowed = self._constrained(self.stop.suppress(logits, len(self.token_ids)))
            self._chosen = int(self._sampler(allowed)[0])
        token_id = self._chosen
        if not 0 <= token_id < logits.shape[-1]:
            self._chosen = None
            raise GenerationError(
                f"the sampler chose token {token_id}; the vocabulary is 0 to {logits.shape[-1] - 1}"
            )
        if self._constraint is not None:
            self._constraint.accept(token_id)
        if self.logprobs is not None:
            self.logprobs.append(token_logprobs(logits[0], token_id, self._num_logprobs))
        self._chosen = None
        self.token_ids.append(token_id)
        reason = self.stop.reason(len(self.token_ids), token_id)
        if reason is not None:
            self.finish(reason)
        return token_id

    def look_at_time(self, elapsed_s: float) -> None:
        """Finish where it is too late to begin a token, seconds after the first was asked for."""
        if self.stop.is_late(elapsed_s):
            self.finish("time")

    def finish(self, reason: FinishReason) -> None:
        """End it, from anywhere and at any moment. The first reason stays."""
        # One operation of the interpreter's: neither a thread nor a signal handler comes between.
        self._ended.setdefault("reason", reason)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended; None while it goes on."""
        return self._ended.get("reason")

    def _constrained(self, logits: Tensor) -> Tensor:
        if self._constraint is None:
            return logits
        masked = self._constraint.mask(logits.clone())
        is_tensor = isinstance(masked, Tensor)
        if not is_tensor or masked.shape != logits.shape or not masked.is_floating_point():
            found = type(masked).__name__
            if is_tensor:
                found = f"{masked.dtype} logits {list(masked.shape)}"
            raise GenerationError(
                f"the constraint gives {found}, expected {list(logits.shape)} of a float dtype, "
                "with -inf where a token is not allowed"
            )
        if (masked == -torch.inf).all():
            raise GenerationError(
                f"after {len(self.token_ids)} tokens the constraint leaves none to choose. Where "
                "the text may only end there, let it allow an EOS, and min_new_tokens be no larger"
            )
        return masked
