"""Qwen2's byte-level BPE, built from vocab.json and merges.txt."""

from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from augur_tok.errors import TokenizerError
from augur_tok.library_errors import library_errors
from augur_tok.shown import shown
from augur_tok.text_files import read_json_object, read_text

# Where text is cut before BPE: contractions, words with one leading character, single digits,
# runs of punctuation with the line ends that follow, line ends, spaces.
# Source: Qwen2's tokenizer.json and transformers' Qwen2Tokenizer.
QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def qwen2_bpe(vocab: Path, merges: Path) -> tokenizers.Tokenizer:
    """The tokenizer of these two files, as yet without added tokens.

    Raises:
        TokenizerError: a file is missing or malformed, or the two do not belong together.
    """
    vocabulary, pairs = _vocabulary(vocab), _merge_pairs(merges)
    with library_errors(
        f"{vocab} and {merges.name} do not make a BPE together", "Fetch both again."
    ):
        model = models.BPE(vocab=vocabulary, merges=pairs)
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(QWEN2_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    return backend


def _vocabulary(path: Path) -> dict[str, int]:
    vocabulary = read_json_object(path)
    for token, token_id in vocabulary.items():
        if type(token_id) is not int or not 0 <= token_id < 2**32:
            raise TokenizerError(
                f"{path}: {shown(token)} has the id {shown(token_id)}, expected an integer "
                "from 0 on. Fetch the file again."
            )
    if len(set(vocabulary.values())) < len(vocabulary):
        raise TokenizerError(f"{path}: two tokens have the same id. Fetch the file again.")
    return vocabulary


def _merge_pairs(path: Path) -> list[tuple[str, str]]:
    """The pairs in order of rank, one "left right" to a line, after an optional version line."""
    pairs = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line or line.startswith("#version"):
            continue
        left, separator, right = line.partition(" ")
        if not (left and separator and right) or " " in right:
            raise TokenizerError(
                f"{path}, line {number}: found {shown(line)}, expected two tokens with a space "
                "between. Fetch the file again."
            )
        pairs.append((left, right))
    return pairs
