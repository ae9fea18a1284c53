"""Qwen text to token ids and back: byte-level BPE, the chat template, streaming decode."""

from augur_tok.errors import ChatTemplateError, TokenizerError
from augur_tok.family import FAMILIES, QWEN2, Family
from augur_tok.stream import StreamDecoder
from augur_tok.tokenizer import Tokenizer

__all__ = [
    "FAMILIES",
    "QWEN2",
    "ChatTemplateError",
    "Family",
    "StreamDecoder",
    "Tokenizer",
    "TokenizerError",
]
