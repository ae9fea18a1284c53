"""What a network makes of a prompt: the thing that is recorded and compared."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Answer:
    """One prompt, encoded and continued greedily, with no penalty of any kind.

    Attributes:
        prompt: the user's words.
        input_ids: the prompt as token ids, in the chat template where the checkpoint has one.
        generated_ids: the new tokens, a stopping EOS included.
        logits: `[steps, vocab_size]`, on the CPU, in the dtype they were computed in. Row i is
            what `generated_ids[i]` was chosen from. There may be fewer rows than tokens: a
            ground-truth file keeps the first alone.
    """

    prompt: str
    input_ids: list[int]
    generated_ids: list[int]
    logits: Tensor
