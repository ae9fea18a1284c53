"""What was asked for, settled: the model, the prompts, how often and how long each rung runs."""

from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Self

from augur.devices import DTypeName
from augur.loading import read_config
from augur_bench.errors import BenchError
from augur_bench.rung import Rung
from augur_bench.work import ModelSize
from augur_proof.prompts import read_prompts
from augur_tok import Tokenizer
from augur_weights import Checkpoint

# Prefill, and decode twice: what the first of a kind sets up is set up, and seen to be.
WARM_UP_TOKENS = 3


@dataclass(frozen=True)
class Settings:
    """One run of the bench.

    Attributes:
        folder: of the checkpoint.
        size: of its model.
        prompts: over which logits are compared, as token ids.
        prompt_token_ids: the prompt that is timed.
        scratch: a folder for this run alone.
        device: such as "cpu" or "cuda:0".
        dtype: of the rungs that do not say.
        threads: for torch on the CPU; None leaves its own choice.
        max_new_tokens: in each timed run.
        check_tokens: of each of `prompts`, compared with the reference.
        rounds: processes of each rung, one after the other.
        repeats: timed runs in each.
        rung_seconds: for a rung's runs. A round does not begin another one that would take it
            beyond its part of this; there are two in all at the least.
        rungs_from: a file with more rungs.
    """

    folder: Path
    size: ModelSize
    prompts: list[list[int]]
    prompt_token_ids: list[int]
    scratch: Path
    device: str = "cpu"
    dtype: DTypeName = "float32"
    threads: int | None = None
    max_new_tokens: int = 32
    check_tokens: int = 1
    rounds: int = 2
    repeats: int = 2
    rung_seconds: float = 30
    rungs_from: Path | None = None

    def __post_init__(self) -> None:
        """Raise `BenchError` if a prompt and its new tokens are more than the model's positions."""
        limit = self.size.config.num_positions
        checks = "Lower --check-tokens, or take a model with more positions"
        for what, prompt, num_new, advice in (
            ("the prompt", self.prompt_token_ids, self._most_new_tokens, "Ask for fewer"),
            ("the longest check prompt", max(self.prompts, key=len), self.check_tokens, checks),
        ):
            num_tokens = len(prompt) + num_new
            if num_tokens > limit:
                raise BenchError(
                    f"{what} has {len(prompt)} tokens and {num_new} follow: {num_tokens}, but the "
                    f"model has {limit} positions. {advice}"
                )

    @classmethod
    def of(
        cls, folder: Path, scratch: Path, num_prompt_tokens: int | None = None, **values: Any
    ) -> Self:
        """Of a checkpoint, over the ten reference prompts, in its chat template if it has one.

        Args:
            folder: of the checkpoint.
            scratch: a folder for this run alone.
            num_prompt_tokens: length of the timed prompt, made of all the prompts again and again;
                None takes the last prompt as it stands.
            values: of the other attributes.
        """
        tokenizer, texts = Tokenizer.from_folder(folder), read_prompts()
        if tokenizer.has_chat_template:
            chats = [[{"role": "user", "content": text}] for text in texts]
            prompts = [tokenizer.encode_chat(one, add_generation_prompt=True) for one in chats]
        else:
            prompts = [tokenizer.encode(text, allow_special=True) for text in texts]
        timed = prompts[-1]
        if num_prompt_tokens is not None:
            timed = prompt_of_length(num_prompt_tokens, prompts)
        size = ModelSize(read_config(Checkpoint(folder)))
        return cls(folder, size, prompts, timed, scratch, **values)

    def dtype_of(self, rung: Rung) -> DTypeName:
        """The dtype a rung runs in here."""
        return rung.dtype or self.dtype

    @property
    def capacity(self) -> int:
        """Tokens that a sequence may come to: prompt and new ones, timed or compared."""
        timed = len(self.prompt_token_ids) + self._most_new_tokens
        return max(timed, max(map(len, self.prompts)) + self.check_tokens)

    @property
    def reference_file(self) -> Path:
        """Where the reference's logits lie while the bench runs."""
        return self.scratch / "reference.pt"

    @property
    def _most_new_tokens(self) -> int:
        return max(self.max_new_tokens, WARM_UP_TOKENS)


def prompt_of_length(num_tokens: int, prompts: list[list[int]]) -> list[int]:
    """Exactly that many tokens, of all the prompts again and again."""
    every_token = (token_id for prompt in prompts for token_id in prompt)
    return list(islice(cycle(every_token), num_tokens))
