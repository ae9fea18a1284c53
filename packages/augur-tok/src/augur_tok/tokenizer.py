"""The tokenizer: text to token ids and back, chats to token ids."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, SupportsIndex

import tokenizers

from augur_files import shown
from augur_tok.added_tokens import AddedTokens
from augur_tok.arguments import checked_text, checked_token_id
from augur_tok.backend import open_backend, without_added_tokens
from augur_tok.chat_messages import chat_context
from augur_tok.chat_template import ChatTemplate
from augur_tok.checkpoint_files import CheckpointFiles
from augur_tok.declared_tokens import CONFIG_FILE, declared_tokens
from augur_tok.errors import ChatTemplateError, TokenizerError
from augur_tok.family import FAMILIES, Family
from augur_tok.library_errors import library_errors
from augur_tok.stream import StreamDecoder
from augur_tok.template_files import DEFAULT, read_templates
from augur_tok.token_bytes import bytes_of_id


class Tokenizer:
    """A Qwen checkpoint's tokenizer; open one with `from_folder`."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        family: Family,
        added: AddedTokens,
        templates: Mapping[str, str],
        files: Sequence[Path],
    ) -> None:
        """Puts together what `from_folder` has read."""
        self._backend = backend
        self._plain_backend = without_added_tokens(backend)
        self._bytes_of = partial(bytes_of_id, backend)
        self._added = added
        self._beginning = [] if family.begins_with is None else [self.token_id(family.begins_with)]
        self._templates = dict(templates)
        self._chats: dict[str, ChatTemplate] = {}
        self._files = tuple(files)

    @classmethod
    def from_folder(cls, folder: str | Path, *, families: Sequence[Family] = FAMILIES) -> Self:
        """Opens the tokenizer of a checkpoint folder, which may be of one of the families.

        Reads tokenizer.json where it exists, else vocab.json and merges.txt, and beside them
        tokenizer_config.json and the chat template's own file, if any. All are read as UTF-8.

        Raises:
            TokenizerError: files are missing, malformed or of an unsupported kind; the message
                names the file and says what to do.
        """
        files = CheckpointFiles(Path(folder))
        config = files.json_object_if_present(CONFIG_FILE)
        declared = declared_tokens(files, config, families)
        backend, family = open_backend(files, config, declared, families)
        templates = read_templates(files, config)
        return cls(backend, family, AddedTokens.of(backend, declared), templates, files.read)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that `from_folder` read, and no others: what they hold is this tokenizer."""
        return self._files

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """The special tokens and their ids: those that `skip_special_tokens` passes over."""
        return MappingProxyType(self._added.special)

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, added ones included; a model's vocabulary may be padded."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    @property
    def eos_token_id(self) -> int | None:
        """The id of `eos_token`; None where none is named. A model may stop at others, too."""
        eos = self._added.named.get("eos_token")
        return None if eos is None else self.token_id(eos)

    @property
    def has_chat_template(self) -> bool:
        """Whether the checkpoint brought a chat template; a base model's may not."""
        return bool(self._templates)

    def token_id(self, token: str) -> int:
        """The id of a token as the vocabulary writes it, such as "<|im_end|>" or "Ġthe".

        Raises:
            TokenizerError: there is no such token.
        """
        token_id = self._backend.token_to_id(checked_text(token))
        if token_id is None:
            raise TokenizerError(
                f"the vocabulary has no token {shown(token)}. Use encode for text; tokens spell a "
                "leading space as 'Ġ'."
            )
        return token_id

    def token_bytes(self, token_id: SupportsIndex) -> bytes:
        """The bytes that a token stands for, whole characters or not; an unknown id has none.

        Raises:
            TokenizerError: the id is negative or no integer.
        """
        return self._bytes_of(checked_token_id(token_id))

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """The token ids of a text; the family's token for the beginning is first. Qwen has none.

        Args:
            text: any text; its normal form is what is encoded.
            allow_special: False takes the text as plain content, in which no added token is
                recognised, be it special ("<|im_end|>") or not ("<tool_call>"): they are encoded
                as the characters they are. True recognises all, as transformers does; use it only
                for text that is trusted to hold control tokens.

        Raises:
            TokenizerError: the text is no str, or holds a lone surrogate.
        """
        backend = self._backend if allow_special else self._plain_backend
        return self._beginning + _ids(backend, checked_text(text))

    def decode(
        self, token_ids: Iterable[SupportsIndex], *, skip_special_tokens: bool = False
    ) -> str:
        """The text of token ids, every space kept; bytes that are not UTF-8 become U+FFFD.

        An id that the tokenizer does not know has no text.

        Args:
            token_ids: ids, 0 or more each.
            skip_special_tokens: pass over the ids in `special_tokens`.

        Raises:
            TokenizerError: an id is negative or no integer.
        """
        numbers = [checked_token_id(token_id) for token_id in token_ids]
        skipped = self._skipped_ids(skip_special_tokens)
        kept = (self._bytes_of(number) for number in numbers if number not in skipped)
        return b"".join(kept).decode("utf-8", errors="replace")

    def stream(self, *, skip_special_tokens: bool = True) -> StreamDecoder:
        """A new decoder for ids that come one at a time; see `StreamDecoder`."""
        return StreamDecoder(self._bytes_of, self._skipped_ids(skip_special_tokens))

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: object,
    ) -> str:
        """The text of a chat, written by the checkpoint's own template as in transformers.

        To get ids, use `encode_chat`: in the text, control tokens that a message spells look like
        the template's own.

        Args:
            messages: a list of dicts with `role` and `content`, oldest first.
            add_generation_prompt: end with the opening of the assistant's next turn.
            tools: a list of JSON schemas (dicts) of the functions that the model may call.
            variables: further variables for the template, such as Qwen3's `enable_thinking`.

        Raises:
            ChatTemplateError: no template, messages of the wrong shape, or the template fails.
        """
        context = chat_context(messages, add_generation_prompt, tools, variables)
        return self._chat_template(tools).render(context, datetime.now())

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: object,
    ) -> list[int]:
        """The token ids of a chat, transformers' own as long as no message spells an added token.

        Special tokens come from the template alone: "<|im_end|>" in a message is plain text. Other
        added tokens ("<tool_call>", "</think>") are tokens in system and assistant messages, where
        they are the model's own marks, and in `tools` and `variables`; in messages of any other
        role they are plain text.

        The arguments are those of `apply_chat_template`.

        Raises:
            ChatTemplateError: as `apply_chat_template`, or the template handles a token that a
                message spells so that the two cannot be told apart.
            TokenizerError: a message holds a lone surrogate.
        """
        context = chat_context(messages, add_generation_prompt, tools, variables)
        token_ids: list[int] = []
        pieces = self._chat_template(tools).render_pieces(context, datetime.now())
        for text, token_id in pieces:
            token_ids += _ids(self._plain_backend, text) if token_id is None else [token_id]
        return token_ids

    def _chat_template(self, tools: object) -> ChatTemplate:
        """The template for this chat: a checkpoint may have one of its own for tools."""
        name = "tool_use" if tools is not None and "tool_use" in self._templates else DEFAULT
        source = self._templates.get(name)
        if source is None:
            known = f" (it has {', '.join(sorted(self._templates))})" if self._templates else ""
            raise ChatTemplateError(
                f"the checkpoint has no {name} chat template{known}. Use raw text: encode the "
                "prompt itself."
            )
        if not source.strip():
            raise ChatTemplateError(
                f"the checkpoint's {name} chat template is empty, so that no message would reach "
                "the model. Fetch the checkpoint's tokenizer files again, or use raw text."
            )
        return self._chats.setdefault(name, ChatTemplate(source, self._added))

    def _skipped_ids(self, skip_special_tokens: bool) -> frozenset[int]:
        return frozenset(self._added.special.values()) if skip_special_tokens else frozenset()


def _ids(backend: tokenizers.Tokenizer, text: str) -> list[int]:
    with library_errors("the tokenizers library fails on this text", "Report it there."):
        return backend.encode(text, add_special_tokens=False).ids
