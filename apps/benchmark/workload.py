"""What the rungs are given to do."""

from dataclasses import dataclass
from itertools import cycle, islice
from typing import Self

from augur_model import QwenConfig
from augur_tok import Tokenizer
from benchmark.errors import BenchError
from proof.prompts import read_prompts


@dataclass(frozen=True)
class Workload:
    """Prompts, as token ids.

    Attributes:
        prompt_token_ids: the prompt that is timed.
        check_prompts: those over which logits are compared.
    """

    prompt_token_ids: list[int]
    check_prompts: list[list[int]]

    @classmethod
    def of(cls, tokenizer: Tokenizer, num_prompt_tokens: int | None) -> Self:
        """The reference prompts, each in the chat template where there is one.

        Args:
            tokenizer: the checkpoint's.
            num_prompt_tokens: length of the timed prompt, made of all the prompts again and again;
                None takes the last prompt as it stands.
        """
        prompts = [_encode(tokenizer, prompt) for prompt in read_prompts()]
        workload = cls(prompts[-1], prompts)
        if num_prompt_tokens is None:
            return workload
        return cls(workload.cut(num_prompt_tokens), prompts)

    def cut(self, num_tokens: int) -> list[int]:
        """A prompt of exactly that many tokens."""
        every_token = (token_id for prompt in self.check_prompts for token_id in prompt)
        return list(islice(cycle(every_token), num_tokens))

    def check_fits(self, config: QwenConfig, num_new_tokens: int) -> None:
        """Raise `BenchError` if the timed prompt and the new tokens are more than the model's."""
        wanted, limit = len(self.prompt_token_ids) + num_new_tokens, config.max_position_embeddings
        if wanted > limit:
            raise BenchError(
                f"the prompt has {len(self.prompt_token_ids)} tokens and {num_new_tokens} follow: "
                f"{wanted}, but the model has {limit} positions. Ask for fewer"
            )


def _encode(tokenizer: Tokenizer, prompt: str) -> list[int]:
    if not tokenizer.has_chat_template:
        return tokenizer.encode(prompt, allow_special=True)
    return tokenizer.encode_chat([{"role": "user", "content": prompt}], add_generation_prompt=True)
