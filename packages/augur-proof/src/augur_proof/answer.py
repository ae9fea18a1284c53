"""What a network makes of a prompt: the thing that is recorded and compared."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class GreedyRun(NamedTuple):
    """The raw argmax, step after step, with no penalty of any kind.

    Attributes:
        token_ids: the new tokens, a stopping EOS included.
        logits: `[tokens, vocab_size]`, on the CPU, in the dtype they were computed in. Row i is
            what token i was chosen from.
    """

    token_ids: list[int]
    logits: Tensor


@dataclass(frozen=True)
class Answer:
    """One prompt, encoded and continued greedily.

    Attributes:
        prompt: the user's words.
        input_ids: the prompt as token ids, in the chat template where the checkpoint has one.
        generated_ids: the new tokens, as in `GreedyRun`.
        logits: as in `GreedyRun`. There may be fewer rows than tokens: a ground-truth file keeps
            the first alone.
    """

    prompt: str
    input_ids: list[int]
    generated_ids: list[int]
    logits: Tensor
