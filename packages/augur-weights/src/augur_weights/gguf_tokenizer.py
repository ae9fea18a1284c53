"""From a GGUF file's vocabulary to ``tokenizer.json`` and ``tokenizer_config.json``.

Both have the content that is published. ``tokenizer.json`` alone carries vocabulary and merges;
there is no ``vocab.json`` and no ``merges.txt`` beside it.
"""

from augur_weights.gguf_family import GGUFFamily
from augur_weights.gguf_file import GGUFFile
from augur_weights.gguf_vocabulary import Vocabulary

_BYTE_LEVEL = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False
}  # fmt: skip
_BPE = {
    "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
    "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
}  # fmt: skip


def tokenizer_json(vocabulary: Vocabulary, family: GGUFFamily) -> dict[str, object]:
    """The content of ``tokenizer.json``: NFC, the family's pattern, byte-level BPE."""
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": token.id, **token.flags()} for token in vocabulary.added],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {**split, "pattern": {"Regex": family.split_pattern}},
                _BYTE_LEVEL,
            ],
        },
        "post_processor": _BYTE_LEVEL,
        "decoder": _BYTE_LEVEL,
        "model": {
            **_BPE,
            "vocab": {token: token_id for token_id, token in enumerate(vocabulary.byte_pairs)},
            "merges": vocabulary.merges,
        },
    }


def tokenizer_config(
    gguf: GGUFFile, vocabulary: Vocabulary, family: GGUFFamily
) -> dict[str, object]:
    """The content of ``tokenizer_config.json``, with the chat templates that the file has.

    Raises:
        GGUFError: the file's end or padding id is no added token.
    """
    config: dict[str, object] = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(token.id): token.flags() for token in vocabulary.added},
        "additional_special_tokens": [
            token.content
            for token in vocabulary.added
            if token.special and token.content != family.end_of_text
        ],
        # No token begins a text, whatever bos_token_id says.
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": _special_text(gguf, vocabulary, "eos_token_id"),
        "errors": "replace",
        "model_max_length": gguf.require(f"{family.architecture}.context_length", int),
        "pad_token": _special_text(gguf, vocabulary, "padding_token_id"),
        "split_special_tokens": False,
        "tokenizer_class": family.tokenizer_class,
        "unk_token": None,
    }
    key = "tokenizer.chat_template"
    named = [
        {"name": other.removeprefix(f"{key}."), "template": gguf.require(other, str)}
        for other in gguf.metadata
        if other.startswith(f"{key}.")
    ]
    if key in gguf.metadata:
        only = gguf.require(key, str)
        config["chat_template"] = [{"name": "default", "template": only}, *named] if named else only
    elif named:
        config["chat_template"] = named
    return config


def _special_text(gguf: GGUFFile, vocabulary: Vocabulary, key: str) -> str | None:
    if f"tokenizer.ggml.{key}" not in gguf.metadata:
        return None
    token_id = gguf.require(f"tokenizer.ggml.{key}", int)
    text = next((token.content for token in vocabulary.added if token.id == token_id), None)
    if text is None:
        raise gguf.error(f"tokenizer.ggml.{key} is {token_id}, which is no added token")
    return text
