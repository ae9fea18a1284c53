"""The four packages composed: a name in, an engine that turns prompts into tokens out."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from augur_gen import Generation, StopConditions, generate
from augur_model import OPS_BY_ATTENTION, ConfigError, QwenConfig, QwenForCausalLM
from augur_tok import Tokenizer
from augur_weights import Checkpoint, CheckpointError, load_into

AttentionName = Literal["eager", "sdpa"]


class PromptError(ValueError):
    """A prompt that this checkpoint cannot take as it was asked for."""


@dataclass(frozen=True)
class Engine:
    """A loaded model with its tokenizer.

    Attributes:
        model: filled with weights.
        tokenizer: the checkpoint's.
        eos_token_ids: any of them ends a text.
        attention: the name of the attention path.
        load_s: seconds from the checkpoint folder to a model ready to run.
    """

    model: QwenForCausalLM
    tokenizer: Tokenizer
    eos_token_ids: frozenset[int]
    attention: AttentionName
    load_s: float

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        device: torch.device,
        dtype: torch.dtype,
        attention: AttentionName = "eager",
    ) -> "Engine":
        """Load a checkpoint folder, as `augur_weights.resolve` gives it.

        Raises:
            WeightsError, ModelError, TokenizerError: the checkpoint is wrong or not supported.
        """
        started_s = time.perf_counter()
        checkpoint = Checkpoint(folder)
        model = load_model(checkpoint, device=device, dtype=dtype, attention=attention)
        return cls(
            model=model,
            tokenizer=Tokenizer.from_folder(folder),
            eos_token_ids=eos_token_ids(checkpoint),
            attention=attention,
            load_s=time.perf_counter() - started_s,
        )

    def encode_prompt(
        self, prompt: str, *, raw: bool = False, system: str | None = None
    ) -> list[int]:
        """Token ids of a prompt.

        Args:
            prompt: the user's words.
            raw: True encodes the text as it stands, control tokens written in it included, and
                adds nothing. False takes it as plain text, and puts it into the checkpoint's chat
                template if it has one.
            system: the system message of the chat.

        Raises:
            PromptError: a system message, but no chat template to put it in.
            TokenizerError: the text cannot be encoded.
        """
        if raw or not self.tokenizer.has_chat_template:
            if system is not None:
                raise PromptError(
                    "a system message belongs to a chat template, and this prompt goes without "
                    "one: it is raw, or the checkpoint has none. Leave the system message out"
                )
            return self.tokenizer.encode(prompt, allow_special=raw)
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return self.tokenizer.encode_chat(messages, add_generation_prompt=True)

    def generate(self, prompt_token_ids: list[int], max_new_tokens: int) -> Generation:
        """Greedy continuation, up to an EOS of the checkpoint or `max_new_tokens`."""
        stop = StopConditions(max_new_tokens, self.eos_token_ids)
        return generate(self.model, prompt_token_ids, stop)


def load_model(
    checkpoint: Checkpoint,
    *,
    device: torch.device,
    dtype: torch.dtype,
    attention: AttentionName = "eager",
) -> QwenForCausalLM:
    """Build the network a checkpoint describes, and fill it."""
    config = read_config(checkpoint)
    with torch.device("meta"):
        model = QwenForCausalLM(config, OPS_BY_ATTENTION[attention])
    load_into(model, checkpoint, dtype=dtype, device=device)
    return model


def read_config(checkpoint: Checkpoint) -> QwenConfig:
    """What network a checkpoint describes; errors name the folder."""
    try:
        return QwenConfig.from_dict(checkpoint.config)
    except ConfigError as error:
        raise type(error)(f"{checkpoint.folder}: {error}") from None


def eos_token_ids(checkpoint: Checkpoint) -> frozenset[int]:
    """The ids that end a text: generation_config.json's, else config.json's.

    Raises:
        CheckpointError: they are no ids of the vocabulary.
    """
    sources = {
        "generation_config.json": checkpoint.generation_config,
        "config.json": checkpoint.config,
    }
    for file, config in sources.items():
        found = config.get("eos_token_id")
        if found is not None and found != []:
            return _checked_ids(found, checkpoint.folder / file, read_config(checkpoint).vocab_size)
    return frozenset()


def _checked_ids(found: object, path: Path, vocab_size: int) -> frozenset[int]:
    token_ids = found if isinstance(found, list) else [found]
    for token_id in token_ids:
        # bool is an int to Python
        if type(token_id) is not int or not 0 <= token_id < vocab_size:
            raise CheckpointError(
                f"{path}: eos_token_id is {found!r}, expected an id or a list of ids, each from 0 "
                f"to {vocab_size - 1}. Correct the file, or fetch it again."
            )
    return frozenset(token_ids)
