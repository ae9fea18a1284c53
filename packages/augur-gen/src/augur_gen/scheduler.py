"""Continuous batching (Yu et al., 2022, OSDI, "Orca"): who is fed in the next forward pass."""

from dataclasses import dataclass, field

from torch import Tensor

from augur_gen.block_pool import BlockPool, BlockTable
from augur_gen.errors import CacheFullError, GenerationError
from augur_gen.fitting import check_fits_model
from augur_gen.packed_forward import PackedForward, packed_forward
from augur_gen.packed_pass import PackedPass
from augur_gen.request import Request
from augur_gen.sequence import Sequence
from augur_gen.stopping import FinishReason
from augur_gen.timing import GenerationClock, Stopwatch
from augur_model import QwenForCausalLM


@dataclass(frozen=True)
class StepResult:
    """What one step did.

    Attributes:
        tokens: each request that got a token, and the token.
        ended: requests that have ended since the last step, whatever ended them. One that waits and
            is not ended by the scheduler is told when its turn comes.
        fed: each request that was fed, its first token that was, and how many.
        preempted: requests that gave their blocks back, and wait.
    """

    tokens: list[tuple[Request, int]] = field(default_factory=list)
    ended: list[Request] = field(default_factory=list)
    fed: list[tuple[Request, int, int]] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)


class Scheduler:
    """Generates many sequences together; a plain object that is stepped.

    Each step is one forward pass over a row without padding. First every running sequence that
    decodes feeds its token; what is left of the step's tokens goes to prompts, in chunks, first
    come first served. A sequence is admitted when there are blocks for all it has to feed, and one
    to spare for each that runs. When a running one finds no block for its next token, the one that
    was admitted last gives its blocks back and waits, first in the line; its tokens are kept, and
    computed anew. The same calls give the same steps.

    Args:
        model: the network.
        pool: blocks for the keys and values; no other scheduler's.
        max_running: at most this many sequences are fed in one step.
        max_step_tokens: at most this many tokens are, all sequences together.
        forward: how a row is computed. `packed_forward_by_sequence` is the one for proof.
        stopwatch: for the timings, and for limits of time.

    Raises:
        GenerationError: `max_running` is below 1, or `max_step_tokens` below `max_running`.
    """

    def __init__(
        self,
        model: QwenForCausalLM,
        pool: BlockPool,
        *,
        max_running: int = 16,
        max_step_tokens: int = 256,
        forward: PackedForward = packed_forward,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        if not 1 <= max_running <= max_step_tokens:
            raise GenerationError(
                f"max_running is {max_running} and max_step_tokens {max_step_tokens}; expected at "
                "least 1, and a token in each step for every sequence that runs"
            )
        self._model = model
        self._pool = pool
        self._max_running = max_running
        self._max_step_tokens = max_step_tokens
        self._forward = forward
        self._stopwatch = stopwatch or Stopwatch(model.device)
        # In the order of coming. Those that run are the first: they are admitted from the left, and
        # the last of them waits first.
        self._requests: list[Request] = []
        self._num_running = 0
        self._news = StepResult()  # and what it holds is not told yet

    @property
    def running(self) -> tuple[Request, ...]:
        """Requests that hold blocks, first come first."""
        return tuple(self._requests[: self._num_running])

    @property
    def waiting(self) -> tuple[Request, ...]:
        """Requests that hold none, the next first."""
        return tuple(self._requests[self._num_running :])

    @property
    def has_work(self) -> bool:
        """Whether there is a request that has not ended, or whose end no step has told."""
        return bool(self._requests or self._news.ended)

    def add(self, sequence: Sequence) -> Request:
        """Take a sequence in; it is fed from the next steps on.

        Raises:
            CacheFullError: it could not even be answered alone in the whole pool.
            GenerationError: the model lacks a token that is named, or the positions.
        """
        prompt, stop = sequence.prompt_token_ids, sequence.stop
        check_fits_model(self._model.config, prompt, stop, sequence.sampling)
        most = len(prompt) + stop.max_new_tokens - 1  # the last token is chosen and never fed
        needed = self._pool.blocks_for(most)
        if needed > self._pool.num_blocks:
            raise CacheFullError(
                f"a prompt of {len(prompt)} tokens and {stop.max_new_tokens} new ones take "
                f"{needed} blocks; the whole cache has {self._pool.num_blocks}. Shorten it, ask "
                "for fewer tokens, or give the cache more memory"
            )
        request = Request(sequence, GenerationClock(self._stopwatch))
        self._requests.append(request)
        return request

    def cancel(self, request: Request) -> None:
        """End a request, and free its blocks at once; the next step tells it."""
        self.finish(request, "cancelled")

    def finish(self, request: Request, reason: FinishReason) -> None:
        """As `cancel`, for another reason: a stop string, say. What has ended stays as it is."""
        if not request.has_ended:
            request.sequence.finish(reason)
        self._leave_if_ended(request)

    def step(self) -> StepResult:
        """Feed one row, and choose the next token of each sequence whose tokens are all fed.

        What a sampler or a constraint raises ends its own request. Where the forward pass breaks
        off, or an interrupt comes, it is raised, and all requests wait again with the tokens they
        have: what the blocks hold is not known any more. What there was to tell is told by the next
        step.
        """
        try:
            for request in self.running:
                request.sequence.look_at_time(request.clock.ask())
                self._leave_if_ended(request)
            counts = self._plan()
            if counts:
                self._feed(counts)
        except BaseException:
            self._num_running = 0
            for request in self._requests:
                request.table = BlockTable()
            self._pool.clear()
            raise
        told, self._news = self._news, StepResult()
        return told

    def _plan(self) -> dict[Request, int]:
        """Who feeds how many tokens. Blocks for them are taken, and can be found from now on."""
        counts: dict[Request, int] = {}
        left = self._max_step_tokens
        # Sorting is stable: those that decode first, and each kind in the order of coming.
        for request in sorted(self.running, key=lambda request: request.num_to_feed > 1):
            count = min(request.num_to_feed, left)
            if count and self._has_room(request, count):
                self._pool.grow(request.table, count)
                counts[request] = count
                left -= count
        for request in counts.keys() - self.running:
            left += counts.pop(request)
        for request, count in counts.items():
            self._publish(request, count)
        while left and self._num_running < min(self._max_running, len(self._requests)):
            request = self._requests[self._num_running]
            if request.has_ended:
                self._leave_if_ended(request)
                continue
            if not self._admit(request):
                break  # whoever came later waits, too, however small
            counts[request] = count = min(request.num_to_feed, left)
            self._pool.grow(request.table, count)
            self._publish(request, count)
            left -= count
        return counts

    def _has_room(self, request: Request, count: int) -> bool:
        """Have the last admitted wait until there are blocks; False where `request` is of them."""
        while request in self.running:
            if self._pool.blocks_needed(request.table, count) <= self._pool.num_available:
                return True
            self._num_running -= 1
            last = self._requests[self._num_running]
            self._pool.release(last.table)
            last.num_preemptions += 1
            self._news.preempted.append(last)
        return False

    def _admit(self, request: Request) -> bool:
        """Let the first that waits run, if those that run leave enough blocks."""
        pool = self._pool
        # What their prompts lack, and the block that each will want next: else whoever is admitted
        # last is often the one that has to wait again.
        promised = sum(1 + pool.blocks_needed(r.table, r.num_to_feed) for r in self.running)
        request.table = pool.reuse(request.token_ids(0, request.num_tokens))

        def is_too_large() -> bool:
            needed = pool.blocks_needed(request.table, request.num_to_feed)
            return needed > pool.num_available - promised

        if is_too_large():  # perhaps by a copy: of a block that is found whole but for its last
            pool.truncate(request.table, request.table.length // pool.block_size * pool.block_size)
        if is_too_large():
            pool.release(request.table)
            return False
        if not (request.num_preemptions or request.sequence.token_ids):
            request.num_reused_tokens = request.table.length
        request.clock.ask()
        self._num_running += 1
        return True

    def _publish(self, request: Request, count: int) -> None:
        # Before they are stored: who is admitted in this step may share them, since every layer
        # stores what all sequences bring before it looks at any.
        num_tokens = request.table.length + count
        self._pool.publish(request.table, num_tokens, request.token_ids)

    def _feed(self, counts: dict[Request, int]) -> None:
        token_ids: list[int] = []
        fed: list[tuple[Request, int, int]] = []
        complete: dict[Request, int] = {}  # and the places of their last tokens
        for request, count in counts.items():
            start = request.table.length
            token_ids += request.token_ids(start, start + count)
            if count == request.num_to_feed:
                complete[request] = len(token_ids) - 1
            fed.append((request, start, count))
        tables = [request.table for request in counts]
        packed = PackedPass(self._pool, tables, list(counts.values()))
        logits = self._forward(self._model, token_ids, packed, list(complete.values()))
        self._news.fed.extend(fed)
        for request, row in zip(complete, logits[:, None], strict=True):
            self._take(request, row)

    def _take(self, request: Request, logits: Tensor) -> None:
        if not request.sequence.token_ids:
            request.clock.prefilled()
        try:
            token_id = request.sequence.take(logits)
        except Exception as error:  # whatever a sampler or a constraint raises
            request.error = error
        else:
            self._news.tokens.append((request, token_id))
            request.sequence.look_at_time(request.clock.receive())
        self._leave_if_ended(request)

    def _leave_if_ended(self, request: Request) -> None:
        if request.has_ended and request in self._requests:
            index = self._requests.index(request)
            self._num_running -= index < self._num_running
            del self._requests[index]
            self._pool.release(request.table)
            self._news.ended.append(request)
