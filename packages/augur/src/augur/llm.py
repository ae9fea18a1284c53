"""The four packages composed: a name in, a model that answers out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from augur.attention_choice import AttentionName, choose_attention
from augur.batch_limits import MAX_RUNNING, BatchLimits
from augur.devices import DTypeName, choose_device, choose_dtype
from augur.errors import PromptError, UnansweredError
from augur.free_memory import require_memory
from augur.generation_config import settings_of
from augur.loading import check_vocabularies, eos_token_ids, load_model
from augur.options import DEFAULT_MAX_NEW_TOKENS, GenerationOptions, Options, decide
from augur.sources import resolve_model
from augur.text_batch import AskedText, TextBatch
from augur_gen import StaticKVCache, TextResult, TextStream, generate, greedy
from augur_model import KVCache, QwenForCausalLM
from augur_tok import Tokenizer, TokenizerError
from augur_weights import Checkpoint, Progress

if TYPE_CHECKING:
    from augur.conversation import Conversation, WhenFull

PREFILL_CHUNK = 1024
"""Prompt tokens for each forward pass of a prefill. Memory for attention's scores grows with the
chunk times the context, so a long prompt stays bounded; one of up to this many tokens is fed at
once, which is what its logits are bit-equal to transformers' for."""

Prompt = str | Sequence[Mapping[str, Any]]
"""The user's words, or the messages of a chat as augur-tok's `Tokenizer.encode_chat` takes them."""


def load(
    model: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: DTypeName | None = None,
    attention: AttentionName | None = None,
    progress: Progress | None = None,
) -> "LLM":
    """Find a model, load it, and make it ready to answer.

    Args:
        model: a Hub id (`org/name`, `org/name@revision`), a checkpoint folder, a .gguf file; None
            is the embedded default.
        device: "cuda", "cuda:1", "mps" or "cpu"; None takes the first there is.
        dtype: of weights and cache; None is bfloat16 where the device computes in it natively,
            else float32.
        attention: "eager" is the bit-exact reference, "eager-f32" computes attention in float32,
            "sdpa" is fused. None is eager, and for float16 eager-f32.
        progress: told how far downloads and imports have come.

    Raises:
        OptionError: there is no such device, dtype or attention.
        WeightsError, ModelError, TokenizerError: the name leads to no checkpoint, or to one that is
            wrong or not supported.
        NoRoomError: the device has too little memory free for the weights.
    """
    chosen_device = choose_device(device)
    chosen_dtype = choose_dtype(dtype, chosen_device)
    attention = choose_attention(attention, chosen_dtype)
    folder = resolve_model(model, progress=progress)
    started_s = time.perf_counter()
    checkpoint = Checkpoint(folder)
    tokenizer = Tokenizer.from_folder(folder)
    check_vocabularies(checkpoint, tokenizer)
    return LLM(
        model=load_model(checkpoint, device=chosen_device, dtype=chosen_dtype, attention=attention),
        tokenizer=tokenizer,
        checkpoint=checkpoint,
        eos_token_ids=eos_token_ids(checkpoint),
        attention=attention,
        load_s=time.perf_counter() - started_s,
    )


@dataclass(frozen=True)
class LLM:
    """A loaded model with its tokenizer; `load` makes one.

    Every call that generates takes the keyword arguments of `Options`. A prompt is the user's words
    or a list of messages. Words go into the checkpoint's chat template, if it has one, as plain
    text: a control token that they spell is no control token. With `raw` they go as they stand,
    control tokens included, and nothing is added.

    Attributes:
        model: filled with weights; `model.ops` may be replaced at any time.
        tokenizer: the checkpoint's.
        checkpoint: what it was loaded from.
        eos_token_ids: any of them ends a text.
        attention: the name of the attention path.
        load_s: seconds from the checkpoint folder to a model ready to run.
    """

    model: QwenForCausalLM
    tokenizer: Tokenizer
    checkpoint: Checkpoint
    eos_token_ids: frozenset[int]
    attention: AttentionName
    load_s: float

    def chat(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        thinking: bool | None = None,
        raw: bool = False,
        **options: Unpack[Options],
    ) -> TextResult:
        """Answer a prompt.

        Args:
            prompt: words or messages.
            system: the system message, beside words.
            thinking: whether the model is to think before it answers; None leaves it to the
                template.
            raw: words as they stand, to be continued.
            options: see `Options`.

        Raises:
            PromptError: a system message or a choice about thinking that this prompt or template
                has no place for.
            TokenizerError: the prompt cannot be encoded, or the template does not take it.
            ArgumentError: options with wrong values, or that do not go together; more tokens than
                there are positions.
            GenerationError: the prompt has no tokens, or no token can be chosen.
            NoRoomError: the device has too little memory free for the cache.
        """
        return self.stream(prompt, system=system, thinking=thinking, raw=raw, **options).run()

    def stream(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        thinking: bool | None = None,
        raw: bool = False,
        **options: Unpack[Options],
    ) -> TextStream:
        """As `chat`: the pieces of the text as they are made, `result()` at any time.

        Nothing is computed before the first piece is asked for.
        """
        token_ids = self.encode(prompt, system=system, thinking=thinking, raw=raw)
        return self.generate(token_ids, self.options(**options))

    def batch(
        self,
        prompts: Iterable[Prompt],
        *,
        system: str | None = None,
        thinking: bool | None = None,
        raw: bool = False,
        max_running: int = MAX_RUNNING,
        batch_tokens: int | None = None,
        cache_memory: int | None = None,
        **options: Unpack[Options],
    ) -> list[TextResult]:
        """Answer many prompts together.

        All of them are encoded and checked before the first is answered, so that one which cannot
        be leaves none half done. Where tokens are drawn, the seeds count up from `seed`: each
        answer can be had alone, by its own. Prompts that begin alike share the keys and values of
        that: `[prompt] * 4` computes one prompt.

        Args:
            prompts: words or messages.
            system: as of `chat`, and so are `thinking`, `raw` and `options`.
            max_running: as of `BatchLimits`, and so are `batch_tokens` and `cache_memory`.

        Returns:
            the answers, in the order of the prompts. Each is what the prompt gives alone, but
            perhaps where two tokens are nearly equally likely: see `BatchLimits`.

        Raises:
            PromptError: of one of them, with its place; else as `chat`, before any is answered.
            UnansweredError: some failed midway; it holds the answers of all others.
        """
        limits = BatchLimits(max_running, batch_tokens, cache_memory)
        decided = self.options(**options)
        asked = self.ask(prompts, decided, system=system, thinking=thinking, raw=raw)
        answers: list[TextResult | None] = [None] * len(asked)
        errors: dict[int, Exception] = {}
        for step in TextBatch(self, asked, limits, prefill_chunk=PREFILL_CHUNK):
            for place, ended in step.ended.items():
                if isinstance(ended, Exception):
                    errors[place] = ended
                else:
                    answers[place] = ended
        if errors:
            raise UnansweredError(answers, errors) from errors[min(errors)]
        return [answer for answer in answers if answer is not None]

    def ask(
        self,
        prompts: Iterable[Prompt],
        options: GenerationOptions,
        num_samples: int = 1,
        *,
        first_number: int = 0,
        system: str | None = None,
        thinking: bool | None = None,
        raw: bool = False,
    ) -> list[AskedText]:
        """Encode and check prompts, for a `TextBatch`; arguments as of `batch`.

        Args:
            num_samples: texts for each prompt, side by side.
            first_number: what the first prompt is called in messages.

        Raises:
            PromptError: of one of them, with its place.
        """
        limit = self.model.config.num_positions - options.max_new_tokens
        if isinstance(prompts, str) or not isinstance(prompts, Iterable):
            raise PromptError("{prompts} is %r, expected a list of prompts", prompts)
        encoded: list[list[int]] = []
        for number, prompt in enumerate(prompts, start=first_number):
            try:
                encoded.append(self.encode(prompt, system=system, thinking=thinking, raw=raw))
                if not 0 < len(encoded[-1]) <= limit:
                    raise PromptError(
                        "it has %d tokens, expected 1 to %d, to leave room for {max_new_tokens} in "
                        "the model's %d positions",
                        len(encoded[-1]),
                        limit,
                        self.model.config.num_positions,
                    )
            except PromptError as error:
                raise type(error)(f"prompt {number}: {error.template}", *error.values) from error
            except TokenizerError as error:
                raise PromptError(f"prompt {number}: %s", error) from error
        seeded = options.seeded()
        asked = []
        for place, token_ids in enumerate(encoded):
            # Seeds count up through the samples of each prompt.
            (how,) = seeded.samples(1, first=place * num_samples)
            asked.append(AskedText(f"prompt {first_number + place}", token_ids, how, num_samples))
        return asked

    def conversation(
        self,
        system: str | None = None,
        *,
        context: int | None = None,
        when_full: "WhenFull" = "refuse",
        thinking: bool | None = None,
    ) -> "Conversation":
        """Begin a conversation over one cache; arguments as of `Conversation`.

        Raises:
            ConversationError, PromptError, TokenizerError, NoRoomError: as `Conversation`.
        """
        from augur.conversation import Conversation  # noqa: PLC0415  (it is made of an LLM)

        conversation = Conversation(self, context, when_full=when_full, thinking=thinking)
        if system is not None:
            conversation.set_system(system)
        return conversation

    def options(
        self, default_max_new_tokens: int = DEFAULT_MAX_NEW_TOKENS, **options: Unpack[Options]
    ) -> GenerationOptions:
        """What keyword arguments come to with this checkpoint.

        Raises:
            TypeError: an option that does not exist.
            ArgumentError: a value outside its range, or options that do not go together.
            CheckpointError: generation_config.json asks for what is not supported.
        """
        wants_file = options.get("use_generation_config")
        settings = settings_of(self.checkpoint) if wants_file else None
        decided = decide(options, settings, default_max_new_tokens)
        decided.check_vocabulary(self.model.config.vocab_size)
        return decided

    def encode(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        thinking: bool | None = None,
        raw: bool = False,
    ) -> list[int]:
        """Token ids of a prompt, up to where the answer begins; arguments as of `chat`."""
        if isinstance(prompt, str) and (raw or not self.tokenizer.has_chat_template):
            for name, value in {"system": system, "thinking": thinking}.items():
                if value is not None:
                    raise PromptError(
                        f"{{{name}}} belongs to a chat template, and this prompt goes without one: "
                        "it is raw, or the checkpoint has none. Leave it out"
                    )
            return self.tokenizer.encode(prompt, allow_special=raw)
        if isinstance(prompt, str):
            prompt = [{"role": "user", "content": prompt}]
            if system is not None:
                prompt = [{"role": "system", "content": system}, *prompt]
        elif raw or system is not None:
            name = "raw" if raw else "system"
            raise PromptError(f"{{{name}}} does not go with messages. Leave it out")
        if thinking is None:
            return self.tokenizer.encode_chat(prompt, add_generation_prompt=True)
        if not self._thinking_is_a_choice:
            raise PromptError(
                "the checkpoint's chat template writes the same with thinking and without: it "
                "leaves no choice. Leave {thinking} out"
            )
        return self.tokenizer.encode_chat(
            prompt, add_generation_prompt=True, enable_thinking=thinking
        )

    @cached_property
    def _thinking_is_a_choice(self) -> bool:
        """A template that writes the same either way does not know the choice."""
        write, hello = self.tokenizer.apply_chat_template, [{"role": "user", "content": "Hello"}]
        return write(hello, enable_thinking=True) != write(hello, enable_thinking=False)

    def generate(
        self,
        token_ids: Sequence[int],
        options: GenerationOptions,
        *,
        cache: KVCache | None = None,
        earlier_token_ids: Sequence[int] = (),
        chunk_size: int = PREFILL_CHUNK,
    ) -> TextStream:
        """The layer below: continue token ids, up to an EOS of the checkpoint or what options set.

        Args:
            token_ids: at least one.
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
            NoRoomError: the device has too little memory free for the cache.
        """
        options.check_vocabulary(self.model.config.vocab_size)
        if cache is None:
            self._check_cache_fits(len(token_ids) + options.max_new_tokens)
        generation = generate(
            self.model,
            token_ids,
            options.stop_conditions(self.eos_token_ids),
            sampler=greedy if options.sampling is None else options.sampling,
            constraint=None if options.constraint is None else options.constraint(),
            cache=cache,
            earlier_token_ids=earlier_token_ids,
            chunk_size=chunk_size,
        )
        decoder = self.tokenizer.stream(skip_special_tokens=True)
        return TextStream(generation, decoder, options.stop_strings)

    def _check_cache_fits(self, capacity: int) -> None:
        """Raise `NoRoomError` if the device has too little memory free for such a cache."""
        config, dtype = self.model.config, self.model.dtype
        # More than the positions is another mistake, which `generate` names.
        capacity = min(capacity, config.num_positions)
        require_memory(
            f"the keys and values of {capacity:,} tokens",
            StaticKVCache.num_bytes_of(config, capacity, dtype=dtype),
            self.model.device,
            "Shorten the prompt or ask for fewer tokens, or use a {dtype} of fewer bytes",
        )
