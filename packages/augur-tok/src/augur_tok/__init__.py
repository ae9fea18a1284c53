"""Qwen text to token ids and back: byte-level BPE, the chat template, streaming decode."""

from augur_tok.errors import ChatTemplateError, TokenizerError
from augur_tok.stream import StreamDecoder
from augur_tok.tokenizer import Tokenizer

__all__ = ["ChatTemplateError", "StreamDecoder", "Tokenizer", "TokenizerError"]
