"""A conversation over one cache: each turn feeds only what the cache does not hold yet."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Unpack, get_args

import torch

from augur.answer import Answer
from augur.errors import ContextFullError, ConversationError, OptionError
from augur.free_memory import require_memory
from augur.llm import LLM
from augur.memory_plan import MemoryPlan
from augur.messages import (
    Message,
    Messages,
    system_of,
    with_system,
    without_oldest_turn,
    without_system,
)
from augur.options import GenerationOptions, Options
from augur_gen import StaticKVCache, TextResult

WhenFull = Literal["refuse", "drop"]

DEFAULT_CONTEXT = 4096
"""Tokens; a 0.5B's keys and values for them take 100 MB in float32."""

DEFAULT_MAX_NEW_TOKENS = 512
"""Of one answer."""


class Conversation:
    """Messages, and a cache with the keys and values of what the model has seen of them.

    The checkpoint's template, applied to all messages, says what the model sees. What the cache
    holds is used as far as it is the beginning of that, and no further: if the template writes an
    earlier message differently now, or if an answer's text is cut into other tokens than those that
    were generated, the rest is computed anew. So a turn sees the ids that a fresh start would see.

    Args:
        llm: model and tokenizer.
        context: tokens that fit, the answer under way included. Left out: `DEFAULT_CONTEXT`, or the
            model's positions where they are fewer.
        when_full: what happens when the next answer may not fit: "refuse" raises, "drop" leaves out
            the oldest turns. The system message stays.
        thinking: whether the model is to think before it answers; None leaves it to the template.

    Raises:
        ConversationError: the checkpoint has no chat template.
        OptionError: the context has no such size, or `when_full` is neither.
        PromptError: the chat template leaves no choice about thinking.
        TokenizerError: the chat template is broken.
        NoRoomError: the device has too little memory free for the context.
    """

    def __init__(
        self,
        llm: LLM,
        context: int | None = None,
        *,
        when_full: WhenFull = "refuse",
        thinking: bool | None = None,
    ) -> None:
        if when_full not in get_args(WhenFull):
            raise OptionError("{when_full} is %r, expected one of refuse, drop", when_full)
        if not isinstance(context, int | None):
            raise OptionError("{context} is %r, expected a number of tokens", context)
        if not llm.tokenizer.has_chat_template:
            raise ConversationError(
                "the checkpoint has no chat template, so it cannot hold a conversation: it is "
                "probably a base model. Take its instruct version, or let it continue a raw text"
            )
        self._llm = llm
        self._when_full = when_full
        self._thinking = thinking
        self._messages: Messages = ()
        self._check(())
        self._cache = _make_cache(llm, context)
        self._cached_token_ids: list[int] = []

    @property
    def messages(self) -> Messages:
        """What was said, the system message first if there is one."""
        return self._messages

    @property
    def context(self) -> int:
        """Tokens that fit."""
        return self._cache.capacity

    @property
    def cache_bytes(self) -> int:
        """Memory that the cache takes, however full."""
        return self._cache.num_bytes

    @property
    def device(self) -> torch.device:
        """Where model and cache are."""
        return self._llm.model.device

    @property
    def num_tokens(self) -> int:
        """How long the messages are as the template writes them; 0 before the first."""
        if not without_system(self._messages):
            return 0
        written = self._llm.tokenizer.encode_chat(
            _plain(self._messages), add_generation_prompt=False
        )
        return len(written)

    def check_options(self, options: GenerationOptions) -> None:
        """See before the first turn that there can be one.

        Raises:
            ConversationError: the answer would take all of the context.
            GenerationError: the options do not fit the model.
        """
        if options.max_new_tokens >= self.context:
            raise ConversationError(
                "{max_new_tokens} is %d, and the context holds %d tokens: no room is left for a "
                "message. Ask for fewer new tokens, or a larger {context}",
                options.max_new_tokens,
                self.context,
            )
        # Computes nothing before it is asked for a token.
        self._llm.generate([0], options, cache=self._cache)

    def ask(self, text: str, options: GenerationOptions) -> AbstractContextManager[Answer]:
        """Say something and get the answer.

        It belongs to the conversation when the `with` block is left, as far as it has come then. If
        there is not one token, or on an error before that, the conversation stays as it was.

        Raises:
            ContextFullError: conversation, text and answer may come to more than the context.
            ConversationError: the last message is not answered yet.
            TokenizerError: the text cannot be encoded.
            GenerationError: the options do not fit the model.
        """
        if self._messages and self._messages[-1].role == "user":
            raise ConversationError(
                "the last message has no answer yet: {retry} answers it, {reset} begins anew"
            )
        return self._answer((*self._messages, Message("user", text)), options)

    def retry(self, options: GenerationOptions) -> AbstractContextManager[Answer]:
        """Answer the last message again, or for the first time; otherwise as `ask`.

        The former answer goes when there is a token of the new one.

        Raises:
            ConversationError: nothing was asked.
        """
        is_answered = bool(self._messages) and self._messages[-1].role == "assistant"
        messages = self._messages[:-1] if is_answered else self._messages
        if not without_system(messages):
            raise ConversationError("there is nothing to retry: no message was sent yet")
        return self._answer(messages, options)

    def chat(self, text: str, **options: Unpack[Options]) -> TextResult:
        """Say something and get the whole answer; an answer takes 512 tokens at most.

        Raises:
            ArgumentError: options with wrong values, or that do not go together; else as `ask`.
        """
        with self.ask(text, self._llm.options(DEFAULT_MAX_NEW_TOKENS, **options)) as answer:
            for _ in answer:
                pass
        return answer.result()

    def reset(self) -> None:
        """Forget what user and assistant said. The system message stays."""
        self._messages = tuple(message for message in self._messages if message.role == "system")

    def set_system(self, content: str | None) -> None:
        """Give another system message, or none, and keep the rest, which the next turn feeds again.

        Raises:
            TokenizerError: the template cannot write it.
        """
        rest = without_system(self._messages)
        self.replace(rest if content is None else with_system(rest, content))

    def replace(self, messages: Messages) -> None:
        """Go on from other messages.

        Raises:
            TokenizerError: the template cannot write them. The conversation stays as it was.
        """
        self._check(messages)
        self._messages = messages

    @property
    def system(self) -> str | None:
        """The system message; None where the template is left to its default."""
        return system_of(self._messages)

    @contextmanager
    def _answer(self, messages: Messages, options: GenerationOptions) -> Iterator[Answer]:
        messages, token_ids, dropped = self._fit(messages, options.max_new_tokens)
        num_reused = self._keep_common_prefix(token_ids)
        stream = self._llm.generate(
            token_ids[num_reused:],
            options,
            cache=self._cache,
            earlier_token_ids=token_ids[:num_reused],
        )
        try:
            yield Answer(token_ids, num_reused, dropped, stream)
        finally:
            stream.finish()
            result = stream.result()
            # Whatever broke off, the cache counts a token when all layers have taken it: the last
            # one chosen was never fed.
            self._cached_token_ids = (token_ids + result.token_ids)[: self._cache.length]
            if result.token_ids:
                self._messages = (*messages, Message("assistant", result.text))

    def _fit(self, messages: Messages, max_new_tokens: int) -> tuple[Messages, list[int], Messages]:
        """Messages that leave room for the answer, their ids, and the messages that had to go."""
        token_ids = self._token_ids(messages)
        length = len(token_ids)
        dropped: Messages = ()
        while len(token_ids) + max_new_tokens > self.context:
            messages, oldest = without_oldest_turn(messages)
            if self._when_full == "refuse" or not oldest:
                raise self._full(length, len(token_ids), max_new_tokens)
            dropped += oldest
            token_ids = self._token_ids(messages)
        return messages, token_ids, dropped

    def _full(self, length: int, shortest: int, max_new_tokens: int) -> ContextFullError:
        found = f"with this message the conversation is {length} tokens long"
        if shortest < length:
            found += f", {shortest} without its older turns"
        return ContextFullError(
            "the context is full: %s, the answer may take %d more ({max_new_tokens}), and the "
            "context holds %d. {reset} begins anew; or start with a larger {context} (the model "
            "has %d positions), fewer {max_new_tokens}, or {when_full} drop",
            found,
            max_new_tokens,
            self.context,
            self._llm.model.config.num_positions,
        )

    def _keep_common_prefix(self, token_ids: list[int]) -> int:
        """Cut the cache back to what it shares with `token_ids`; at least one is left to feed."""
        num_shared = common_prefix_length(self._cached_token_ids, token_ids)
        num_reused = min(num_shared, len(token_ids) - 1)
        self._cached_token_ids = token_ids[:num_reused]
        self._cache.truncate(num_reused)
        return num_reused

    def _check(self, messages: Messages) -> None:
        """See that the template can write them and what comes next."""
        is_unanswered = bool(messages) and messages[-1].role == "user"
        self._token_ids(messages if is_unanswered else (*messages, Message("user", "Hello")))

    def _token_ids(self, messages: Messages) -> list[int]:
        """What the model sees before it answers."""
        return self._llm.encode(_plain(messages), thinking=self._thinking)


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids two sequences begin with together."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))


def _plain(messages: Messages) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _make_cache(llm: LLM, context: int | None) -> StaticKVCache:
    """Memory for the keys and values of `context` tokens, or of as many as are usual."""
    config = llm.model.config
    plan = MemoryPlan.of(
        config, context if context is not None else min(DEFAULT_CONTEXT, config.num_positions)
    )
    require_memory(
        f"the keys and values of {plan.context} tokens",
        plan.cache_bytes(llm.model.dtype),
        llm.model.device,
        "Ask for a smaller {context}, or use a {dtype} of fewer bytes",
    )
    return StaticKVCache.for_model(llm.model, plan.context)
