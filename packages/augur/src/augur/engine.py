"""The four packages composed: a name in, an engine that turns prompts into tokens out."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from augur.attention_choice import AttentionName, choose_attention
from augur.devices import dtype_name
from augur.free_memory import require_memory
from augur.generation_options import GenerationOptions, OptionError
from augur.model_source import config_of
from augur_gen import StaticKVCache, TextStream, generate, greedy
from augur_model import OPS_BY_ATTENTION, KVCache, QwenConfig, QwenForCausalLM
from augur_tok import Tokenizer
from augur_weights import Checkpoint, CheckpointError, load_into

PREFILL_CHUNK = 1024
"""Prompt tokens for each forward pass of a prefill. Memory for attention's scores grows with the
chunk times the context, so a long prompt stays bounded; one of up to this many tokens is fed at
once, which is what its logits are bit-equal to transformers' for."""


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
        attention: AttentionName | None = None,
    ) -> "Engine":
        """Load a checkpoint folder, as `augur_weights.resolve` gives it.

        Raises:
            WeightsError, ModelError, TokenizerError: the checkpoint is wrong or not supported.
            NoRoomError: the device has too little memory free for the weights.
        """
        started_s = time.perf_counter()
        attention = choose_attention(attention, dtype)
        checkpoint = Checkpoint(folder)
        tokenizer = Tokenizer.from_folder(folder)
        check_vocabularies(checkpoint, tokenizer)
        model = load_model(checkpoint, device=device, dtype=dtype, attention=attention)
        return cls(
            model=model,
            tokenizer=tokenizer,
            eos_token_ids=eos_token_ids(checkpoint),
            attention=attention,
            load_s=time.perf_counter() - started_s,
        )

    def encode_prompt(
        self,
        prompt: str,
        *,
        raw: bool = False,
        system: str | None = None,
        thinking: bool | None = None,
    ) -> list[int]:
        """Token ids of a prompt.

        Args:
            prompt: the user's words.
            raw: True encodes the text as it stands, control tokens written in it included, and
                adds nothing. False takes it as plain text, and puts it into the checkpoint's chat
                template if it has one.
            system: the system message of the chat.
            thinking: whether the model is to think before it answers; None leaves it to the
                template.

        Raises:
            PromptError: a system message or a choice about thinking, but no chat template to put it
                in, or one that does not ask about thinking.
            TokenizerError: the text cannot be encoded.
        """
        if raw or not self.tokenizer.has_chat_template:
            if system is not None or thinking is not None:
                what = "a system message" if system is not None else "a choice about thinking"
                raise PromptError(
                    f"{what} belongs to a chat template, and this prompt goes without "
                    "one: it is raw, or the checkpoint has none. Leave it out"
                )
            return self.tokenizer.encode(prompt, allow_special=raw)
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return self.encode_messages(messages, thinking=thinking)

    def encode_messages(
        self, messages: Sequence[Mapping[str, Any]], *, thinking: bool | None = None
    ) -> list[int]:
        """Token ids of a chat, up to where the answer begins.

        Args:
            messages: as augur-tok's `Tokenizer.encode_chat` takes them.
            thinking: as for `encode_prompt`.

        Raises:
            PromptError: the chat template does not ask about thinking.
            TokenizerError: there is no chat template, or it does not take these messages.
        """
        if thinking is None:
            return self.tokenizer.encode_chat(messages, add_generation_prompt=True)
        if not self._thinking_is_a_choice:
            raise PromptError(
                "the checkpoint's chat template writes the same with thinking and without: it "
                "leaves no choice. Leave --thinking and --no-thinking out"
            )
        return self.tokenizer.encode_chat(
            messages, add_generation_prompt=True, enable_thinking=thinking
        )

    @cached_property
    def _thinking_is_a_choice(self) -> bool:
        """A template that writes the same either way does not know the choice."""
        write, hello = self.tokenizer.apply_chat_template, [{"role": "user", "content": "Hello"}]
        return write(hello, enable_thinking=True) != write(hello, enable_thinking=False)

    def generate(
        self,
        prompt_token_ids: Sequence[int],
        options: GenerationOptions,
        *,
        cache: KVCache | None = None,
        earlier_token_ids: Sequence[int] = (),
        chunk_size: int = PREFILL_CHUNK,
    ) -> TextStream:
        """Continue a prompt, up to an EOS of the checkpoint or what the options set.

        Args:
            prompt_token_ids: at least one.
            options: how to choose tokens and when to stop.
            cache: continue after what it holds. Left out: a new one of just the size needed.
            earlier_token_ids: what `cache` holds, which a repetition penalty counts.
            chunk_size: prompt tokens for each forward pass of the prefill.

        Returns:
            the pieces of the text, special tokens left out; nothing is computed before the first
            is asked for.

        Raises:
            GenerationError: an empty prompt, or more tokens than there are positions.
            CacheFullError: prompt and new tokens do not fit into `cache`.
            OptionError: an option names an id that the vocabulary does not have.
            NoRoomError: the device has too little memory free for the cache.
        """
        self._check_vocabulary(options)
        if cache is None:
            self.check_cache_fits(len(prompt_token_ids) + options.max_new_tokens)
        generation = generate(
            self.model,
            prompt_token_ids,
            options.stop_conditions(self.eos_token_ids),
            sampler=greedy if options.sampling is None else options.sampling,
            cache=cache,
            earlier_token_ids=earlier_token_ids,
            chunk_size=chunk_size,
        )
        decoder = self.tokenizer.stream(skip_special_tokens=True)
        return TextStream(generation, decoder, options.stop_strings)

    def check_cache_fits(self, capacity: int) -> None:
        """Raise `NoRoomError` if the device has too little memory free for such a cache."""
        config, dtype = self.model.config, self.model.dtype
        # More than the positions is another mistake, which `generate` names.
        capacity = min(capacity, config.num_positions)
        require_memory(
            f"the keys and values of {capacity:,} tokens",
            StaticKVCache.num_bytes_of(config, capacity, dtype=dtype),
            self.model.device,
            "Shorten the prompt or ask for fewer tokens, or use a --dtype of fewer bytes",
        )

    def _check_vocabulary(self, options: GenerationOptions) -> None:
        biased = () if options.sampling is None else options.sampling.logit_bias
        largest_id = self.model.config.vocab_size - 1
        for option, token_ids in {
            "--stop-token-id": options.stop_token_ids,
            "--logit-bias": biased,
        }.items():
            for token_id in token_ids:
                if not 0 <= token_id <= largest_id:
                    raise OptionError(
                        f"{option} names token {token_id}; the model's vocabulary is 0 to "
                        f"{largest_id}"
                    )


def load_model(
    checkpoint: Checkpoint,
    *,
    device: torch.device,
    dtype: torch.dtype,
    attention: AttentionName = "eager",
) -> QwenForCausalLM:
    """Build the network a checkpoint describes, and fill it.

    Raises:
        WeightsError, ModelError: the checkpoint is wrong or not supported.
        NoRoomError: the device has too little memory free for the weights.
    """
    config = read_config(checkpoint)
    # Before anything is built: a config may ask for any size.
    require_memory(
        f"{checkpoint.folder}: {config.num_parameters:,} parameters in {dtype_name(dtype)}",
        config.num_parameters * dtype.itemsize,
        device,
        "Use a --dtype of fewer bytes, a smaller model or another --device",
    )
    with torch.device("meta"):
        model = QwenForCausalLM(config, OPS_BY_ATTENTION[attention])
    load_into(model, checkpoint, dtype=dtype, device=device)
    return model


def read_config(checkpoint: Checkpoint) -> QwenConfig:
    """What network a checkpoint describes; errors name the folder."""
    return config_of(checkpoint.folder, checkpoint.config)


def check_vocabularies(checkpoint: Checkpoint, tokenizer: Tokenizer) -> None:
    """A larger model is padded, as Qwen's are; a larger tokenizer is another model's.

    Raises:
        CheckpointError: it is.
    """
    vocab_size = read_config(checkpoint).vocab_size
    if tokenizer.vocab_size > vocab_size:
        raise CheckpointError(
            f"{checkpoint.folder}: the tokenizer knows {tokenizer.vocab_size} tokens, the model "
            f"{vocab_size} (vocab_size in config.json). They do not belong together: fetch the "
            "model's own tokenizer files."
        )


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
