"""One sequence on its way through a scheduler."""

from dataclasses import dataclass, field

from augur_gen.block_pool import BlockTable
from augur_gen.generation import GenerationResult
from augur_gen.sequence import Sequence
from augur_gen.timing import GenerationClock


@dataclass(eq=False)
class Request:
    """May be read at any time; it is the scheduler that changes it.

    Attributes:
        sequence: what is said, and whether it is done.
        clock: begins when the first token is fed.
        table: where its keys are; empty unless it runs.
        num_reused_tokens: of the prompt, that were found in the pool and not fed.
        num_preemptions: how often it had to give its blocks back and be computed anew.
        error: what a sampler or a constraint raised, which ended it.
    """

    sequence: Sequence
    clock: GenerationClock = field(repr=False)
    table: BlockTable = field(default_factory=BlockTable)
    num_reused_tokens: int = 0
    num_preemptions: int = 0
    error: Exception | None = None

    @property
    def has_ended(self) -> bool:
        """Whether no more tokens come."""
        return self.error is not None or self.sequence.finish_reason is not None

    @property
    def num_tokens(self) -> int:
        """Prompt and new tokens; what is to be fed before the next can be chosen."""
        return len(self.sequence.prompt_token_ids) + len(self.sequence.token_ids)

    @property
    def num_to_feed(self) -> int:
        """Of these, tokens that are not stored yet."""
        return self.num_tokens - self.table.length

    def token_ids(self, start: int, end: int) -> list[int]:
        """Tokens `start .. end - 1` of prompt and new ones."""
        prompt, new = self.sequence.prompt_token_ids, self.sequence.token_ids
        past = len(prompt)
        return prompt[start:end] + new[max(0, start - past) : max(0, end - past)]

    def result(self) -> GenerationResult:
        """What there is so far. Its timings hold what other sequences took in the same steps."""
        sequence = self.sequence
        num_fed = len(sequence.prompt_token_ids) - self.num_reused_tokens
        return GenerationResult(
            list(sequence.token_ids),
            sequence.finish_reason,
            self.clock.timings(num_fed),
            sequence.sampling,
            None if sequence.logprobs is None else list(sequence.logprobs),
            self.num_reused_tokens,
        )
