"""Answers that follow a grammar, by llguidance (the extra `grammar`)."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from augur.errors import OptionError
from augur.llm import LLM
from augur_gen import Constraint, GenerationError

try:
    import llguidance
except ImportError:
    llguidance = None  # type: ignore[assignment]


def json_schema(llm: LLM, schema: Mapping[str, Any] | str) -> Callable[[], Constraint]:
    """Answers that are JSON of this schema: the `constraint` of every call that generates.

    An answer that ends by itself parses and validates; one that `max_new_tokens` cuts may not.

    Args:
        llm: whose tokens are to be chosen.
        schema: a JSON schema, parsed or as text.

    Raises:
        OptionError: llguidance is not installed, does not take the schema, or the checkpoint names
            no EOS for an answer to end with.
    """
    if llguidance is None:
        raise OptionError("{constraint} needs llguidance: install augur-qwen[grammar]")
    if not llm.eos_token_ids:
        raise OptionError("{constraint} needs an EOS to end with, and the checkpoint names none")
    text = schema if isinstance(schema, str) else json.dumps(schema)
    grammar = llguidance.LLMatcher.grammar_from_json_schema(text)
    vocabulary = llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(_Vocabulary(llm)), eos_token=sorted(llm.eos_token_ids)
    )
    fault = llguidance.LLMatcher.validate_grammar(grammar, vocabulary)
    if fault:
        raise OptionError("{constraint}: the schema is not taken: %s", fault)
    return lambda: _Matcher(llguidance.LLMatcher(vocabulary, grammar))


class _Vocabulary:
    """What llguidance asks of a tokenizer: each token's bytes, and the ids of a text."""

    bos_token_id = None

    def __init__(self, llm: LLM) -> None:
        tokenizer, special = llm.tokenizer, llm.tokenizer.special_tokens
        self.eos_token_id = min(llm.eos_token_ids)
        self.special_token_ids = sorted(special.values())
        # A token without bytes is never allowed: padding, and what is no text.
        self.tokens = [tokenizer.token_bytes(i) for i in range(llm.model.config.vocab_size)]
        for name, token_id in special.items():
            self.tokens[token_id] = b"\xff" + name.encode()  # as llguidance marks them
        self._encode = tokenizer.encode

    def __call__(self, text: str) -> list[int]:
        return self._encode(text)


class _Matcher:
    """An `augur_gen.Constraint`."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def mask(self, logits: Tensor) -> Tensor:
        """See `Constraint.mask`."""
        bits = torch.frombuffer(bytearray(self._matcher.compute_bitmask()), dtype=torch.uint8)
        allowed = (bits[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
        allowed = allowed.flatten()[: logits.shape[-1]].bool().to(logits.device)
        return logits.masked_fill(~allowed, -torch.inf)

    def accept(self, token_id: int) -> None:
        """See `Constraint.accept`."""
        if not self._matcher.consume_token(token_id):
            raise GenerationError(f"the grammar takes no more: {self._matcher.get_error()}")
