"""What the rungs are given to do."""

from dataclasses import dataclass
from itertools import cycle, islice
from typing import Self

from augur_bench.errors import BenchError
from augur_model import QwenConfig
from augur_proof.prompts import read_prompts
from augur_tok import Tokenizer

# Prefill, and decode twice: what the first of a kind sets up is set up, and seen to be.
WARM_UP_TOKENS = 3


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

    def check_fits(self, config: QwenConfig, num_new_tokens: int, num_check_tokens: int) -> None:
        """Raise `BenchError` if a prompt and its new tokens are more than the model's positions.

        Args:
            config: of the model.
            num_new_tokens: after the timed prompt.
            num_check_tokens: after each of the check prompts.
        """
        limit = config.num_positions
        longest = max(map(len, self.check_prompts))
        for what, num_prompt, num_new, advice in (
            ("the prompt", len(self.prompt_token_ids), num_new_tokens, "Ask for fewer"),
            (
                "the longest check prompt",
                longest,
                num_check_tokens,
                "Lower --check-tokens, or take a model with more positions",
            ),
        ):
            if num_prompt + num_new > limit:
                raise BenchError(
                    f"{what} has {num_prompt} tokens and {num_new} follow: {num_prompt + num_new}, "
                    f"but the model has {limit} positions. {advice}"
                )


def _encode(tokenizer: Tokenizer, prompt: str) -> list[int]:
    if not tokenizer.has_chat_template:
        return tokenizer.encode(prompt, allow_special=True)
    return tokenizer.encode_chat([{"role": "user", "content": prompt}], add_generation_prompt=True)
