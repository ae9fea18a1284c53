"""A family's byte-level BPE, built from vocab.json and merges.txt; what makes one whole."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from augur_files import shown
from augur_tok.checkpoint_files import CheckpointFiles
from augur_tok.errors import broken_file
from augur_tok.family import Family
from augur_tok.library_errors import library_errors
from augur_tok.token_bytes import BYTE_OF_CHARACTER

VOCAB_FILE, MERGES_FILE = "vocab.json", "merges.txt"
ALPHABET = frozenset(BYTE_OF_CHARACTER)


def bpe_of_vocab(
    files: CheckpointFiles, family: Family, added: Iterable[str]
) -> tokenizers.Tokenizer:
    """The tokenizer of vocab.json and merges.txt, as yet without the tokens that are `added`.

    Raises:
        TokenizerError: a file is missing or malformed, or the two do not belong together.
    """
    vocab, merges = files.folder / VOCAB_FILE, files.folder / MERGES_FILE
    vocabulary = files.json_object(VOCAB_FILE)
    pairs = _merge_pairs(merges, files.text(MERGES_FILE))
    for token, token_id in vocabulary.items():
        if type(token_id) is not int or not 0 <= token_id < 2**32:
            found = f"{shown(token)} has the id {shown(token_id)}"
            raise broken_file(vocab, f"{found}, expected an integer from 0 on")
    if len(set(vocabulary.values())) < len(vocabulary):
        raise broken_file(vocab, "two tokens have the same id")
    check_merges(merges, vocabulary, pairs, added)
    with library_errors(
        f"{vocab} and {MERGES_FILE} do not make a BPE together", "Fetch both again."
    ):
        model = models.BPE(vocab=vocabulary, merges=pairs)
    backend = tokenizers.Tokenizer(model)
    steps = [getattr(normalizers, name)() for name in family.normalizers]
    backend.normalizer = normalizers.Sequence(steps)
    split = pre_tokenizers.Split(tokenizers.Regex(family.split), behavior="isolated")
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, spell])
    backend.decoder = decoders.ByteLevel()
    return backend


def check_merges(
    path: Path, vocabulary: Iterable[str], pairs: Iterable[Sequence[str]], added: Iterable[str]
) -> None:
    """Every token of more than one byte is merged from two, so that a text can become it.

    Raises:
        TokenizerError: there are no merges, or fewer than the vocabulary needs.
    """
    merged = {"".join(pair) for pair in pairs}
    if not merged:
        raise broken_file(path, "has no merges, so that every text would become single bytes")
    spelled = (token for token in vocabulary if len(token) > 1 and ALPHABET.issuperset(token))
    merged.update(added)
    unmerged = [token for token in spelled if token not in merged]
    if unmerged:
        raise broken_file(
            path,
            f"has no merges for {len(unmerged):,} tokens of the vocabulary (the first is "
            f"{shown(unmerged[0])}): it is cut short, or of another checkpoint",
        )


def _merge_pairs(path: Path, text: str) -> list[tuple[str, str]]:
    """The pairs in order of rank, one "left right" to a line, after an optional version line."""
    pairs = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.startswith("#version"):
            continue
        left, separator, right = line.partition(" ")
        if not (left and separator and right) or " " in right:
            found = f"line {number}: found {shown(line)}"
            raise broken_file(path, f"{found}, expected two tokens with a space between")
        pairs.append((left, right))
    return pairs
