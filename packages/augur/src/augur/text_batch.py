"""Many texts generated together: a scheduler, and for each text what makes words of its tokens."""

import collections.abc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from augur.batch_limits import BatchLimits
from augur.errors import NoRoomError
from augur.options import GenerationOptions
from augur_gen import (
    BlockPool,
    GenerationError,
    Request,
    Scheduler,
    Sequence,
    TextResult,
    TextStream,
    TokenText,
    greedy,
)

if TYPE_CHECKING:
    from augur.llm import LLM


@dataclass(frozen=True)
class AskedText:
    """What is to be continued, and how.

    Attributes:
        name: which of the prompts it is, for messages.
        token_ids: of the prompt.
        options: how to continue it.
        num_samples: texts for it, with seeds that count up.
    """

    name: str
    token_ids: collections.abc.Sequence[int]
    options: GenerationOptions
    num_samples: int = 1

    @property
    def num_tokens(self) -> int:
        """Of prompt and answer, at most."""
        return len(self.token_ids) + self.options.max_new_tokens


@dataclass(frozen=True)
class BatchStep:
    """What one step did, by the texts' places.

    Attributes:
        pieces: text that is certain now and was not before; never empty.
        ended: what a text has come to, or the error that it ended with.
    """

    pieces: dict[int, str] = field(default_factory=dict)
    ended: dict[int, TextResult | Exception] = field(default_factory=dict)


@dataclass
class BatchFigures:
    """How far a batch is.

    Attributes:
        num_running: texts that are generated now.
        num_waiting: texts that were not begun, or that gave their blocks back.
        num_blocks: blocks of the cache; 0 where each text is answered alone.
        num_blocks_in_use: that texts hold now.
        cache_bytes: memory of all blocks.
        num_preemptions: how often a text gave its blocks back and was computed anew.
        num_new_tokens: that were generated, of all texts.
        num_prompt_tokens: of the texts that have ended.
        num_reused_tokens: of these, that another text had computed already, and that were not fed.
        elapsed_s: seconds that the steps took.
    """

    num_running: int = 0
    num_waiting: int = 0
    num_blocks: int = 0
    num_blocks_in_use: int = 0
    cache_bytes: int = 0
    num_preemptions: int = 0
    num_new_tokens: int = 0
    num_prompt_tokens: int = 0
    num_reused_tokens: int = 0
    elapsed_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """New tokens per second, of all texts together."""
        return self.num_new_tokens / self.elapsed_s if self.elapsed_s > 0 else 0.0


class TextBatch(Iterator[BatchStep]):
    """Texts for many prompts, a step at a time; nothing is computed before one is asked for.

    Places count through the prompts, and through the samples of each. Texts are begun in this
    order, and end when they end. What cannot be answered, or fails midway, ends with an error of
    its own and leaves the others as they are.

    Args:
        llm: model and tokenizer.
        asked: the prompts.
        limits: how many run at a time, and in how much memory.
        prefill_chunk: prompt tokens for each forward pass, where each text is answered alone.

    Attributes:
        figures: kept up to date by the steps.

    Raises:
        OptionError, NoRoomError: there is no room for the largest alone.
    """

    def __init__(
        self,
        llm: "LLM",
        asked: collections.abc.Sequence[AskedText],
        limits: BatchLimits,
        *,
        prefill_chunk: int,
    ) -> None:
        self._llm = llm
        self._left = ((one, how) for one in asked for how in one.options.samples(one.num_samples))
        self._total = sum(one.num_samples for one in asked)
        self._streams: dict[int, TextStream] = {}
        self._texts: dict[Request, tuple[int, TokenText]] = {}
        self.figures = BatchFigures(num_waiting=self._total)
        positions = llm.model.config.num_positions
        # What is longer is refused when its turn comes, and needs no room.
        sizes = [
            (one.num_tokens - 1, one.num_samples, one.name)
            for one in asked
            if one.num_tokens <= positions
        ]
        if limits.max_running == 1 or not sizes:
            self._steps = self._one_by_one(prefill_chunk)
        else:
            self._steps = self._together(limits, limits.make_pool(llm.model, sizes))

    def __next__(self) -> BatchStep:
        """Compute the next step."""
        began_s = time.perf_counter()
        try:
            return next(self._steps)
        finally:
            self.figures.elapsed_s += time.perf_counter() - began_s

    def unfinished(self) -> dict[int, TextResult]:
        """End the texts that were begun, and give what there is of them, by their places."""
        found = {}
        for place, stream in self._streams.items():
            stream.finish()
            found[place] = stream.result()
        for request, (place, text) in self._texts.items():
            text.finish()
            found[place] = text.result(request.result())
        return found

    def _one_by_one(self, prefill_chunk: int) -> Iterator[BatchStep]:
        figures = self.figures
        for place, (asked, options) in enumerate(self._left):
            figures.num_running, figures.num_waiting = 1, self._total - place - 1
            before = figures.num_new_tokens
            ended: TextResult | Exception
            try:
                stream = self._llm.generate(asked.token_ids, options, chunk_size=prefill_chunk)
                self._streams[place] = stream
                for piece in stream:
                    figures.num_new_tokens = before + len(stream.result().token_ids)
                    yield BatchStep({place: piece})
                ended = stream.result()
                figures.num_new_tokens = before + len(ended.token_ids)
                figures.num_prompt_tokens += len(asked.token_ids)
            except NoRoomError as error:
                # No answer: at another time there would be one.
                raise NoRoomError(f"%s: {error.template}", asked.name, *error.values) from error
            except GenerationError as error:
                ended = error
            self._streams.pop(place, None)
            figures.num_running = 0
            yield BatchStep(ended={place: ended})

    def _together(self, limits: BatchLimits, pool: BlockPool) -> Iterator[BatchStep]:
        scheduler = Scheduler(
            self._llm.model,
            pool,
            max_running=limits.max_running,
            max_step_tokens=limits.max_step_tokens,
        )
        most_admitted = min(limits.max_running, pool.num_blocks)
        figures, num_added = self.figures, 0
        figures.num_blocks, figures.cache_bytes = pool.num_blocks, pool.num_bytes
        while num_added < self._total or scheduler.has_work:
            step = BatchStep()
            # No more than could be admitted: the scheduler looks at all of them in every step.
            while len(scheduler.waiting) < most_admitted and num_added < self._total:
                try:
                    self._add(scheduler, num_added, *next(self._left))
                except GenerationError as error:
                    step.ended[num_added] = error
                num_added += 1
            if scheduler.has_work:
                self._take(scheduler, step)
            figures.num_running = len(scheduler.running)
            figures.num_waiting = len(scheduler.waiting) + self._total - num_added
            figures.num_blocks_in_use = pool.num_in_use
            yield step

    def _add(
        self, scheduler: Scheduler, place: int, asked: AskedText, options: GenerationOptions
    ) -> None:
        sequence = Sequence(
            asked.token_ids,
            options.stop_conditions(self._llm.eos_token_ids),
            sampler=greedy if options.sampling is None else options.sampling,
            constraint=None if options.constraint is None else options.constraint(),
        )
        decoder = self._llm.tokenizer.stream(skip_special_tokens=True)
        text = TokenText(decoder, options.stop_strings)
        self._texts[scheduler.add(sequence)] = (place, text)

    def _take(self, scheduler: Scheduler, step: BatchStep) -> None:
        """Let the scheduler step, and tell what came of it."""
        done, figures = scheduler.step(), self.figures
        figures.num_new_tokens += len(done.tokens)
        figures.num_preemptions += len(done.preempted)
        for request, token_id in done.tokens:
            place, text = self._texts[request]
            piece = text.push(token_id)
            if text.stop_string is not None:
                scheduler.finish(request, "stop")
            if piece:
                step.pieces[place] = piece
        for request in done.ended:
            place, text = self._texts.pop(request)
            piece = text.finish()
            if piece:
                step.pieces[place] = step.pieces.get(place, "") + piece
            step.ended[place] = request.error or text.result(request.result())
            figures.num_prompt_tokens += len(request.sequence.prompt_token_ids)
            figures.num_reused_tokens += request.num_reused_tokens
