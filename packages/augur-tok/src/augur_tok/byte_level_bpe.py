"""A family's byte-level BPE, built from vocab.json and merges.txt; what makes one whole."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from augur_files import shown
from augur_tok.checkpoint_files import CheckpointFiles
from augur_tok.errors import TokenizerError
from augur_tok.family import Family
from augur_tok.library_errors import library_errors
from augur_tok.token_bytes import BYTE_OF_CHARACTER

VOCAB_FILE, MERGES_FILE = "vocab.json", "merges.txt"
ALPHABET = frozenset(BYTE_OF_CHARACTER)


def bpe_of_vocab(
    files: CheckpointFiles, family: Family, added: Iterable[str]
) -> tokenizers.Tokenizer:
    """The tokenizer of vocab.json and merges.txt, as yet without added tokens.

    Args:
        files: the folder.
        family: whose text it is for.
        added: the tokens that may stand in the vocabulary without being merged.

    Raises:
        TokenizerError: a file is missing or malformed, or the two do not belong together.
    """
    vocab, merges = files.folder / VOCAB_FILE, files.folder / MERGES_FILE
    vocabulary = files.json_object(VOCAB_FILE)
    pairs = _merge_pairs(merges, files.text(MERGES_FILE))
    for token, token_id in vocabulary.items():
        if type(token_id) is not int or not 0 <= token_id < 2**32:
            raise TokenizerError(
                f"{vocab}: {shown(token)} has the id {shown(token_id)}, expected an integer "
                "from 0 on. Fetch the file again."
            )
    if len(set(vocabulary.values())) < len(vocabulary):
        raise TokenizerError(f"{vocab}: two tokens have the same id. Fetch the file again.")
    check_merges(merges, vocabulary, pairs, added)
    with library_errors(
        f"{vocab} and {MERGES_FILE} do not make a BPE together", "Fetch both again."
    ):
        model = models.BPE(vocab=vocabulary, merges=pairs)
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.Sequence(
        [getattr(normalizers, name)() for name in family.normalizers]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(family.split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
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
        raise TokenizerError(
            f"{path} has no merges, so that every text would become single bytes. Fetch the file "
            "again."
        )
    spelled = (token for token in vocabulary if len(token) > 1 and ALPHABET.issuperset(token))
    merged.update(added)
    unmerged = [token for token in spelled if token not in merged]
    if unmerged:
        raise TokenizerError(
            f"{path} has no merges for {len(unmerged):,} tokens of the "
            f"vocabulary (the first is {shown(unmerged[0])}): it is cut short, or of another "
            "checkpoint. Fetch the files again."
        )


def _merge_pairs(path: Path, text: str) -> list[tuple[str, str]]:
    """The pairs in order of rank, one "left right" to a line, after an optional version line."""
    pairs = []
    for number, line in enumerate(text.split("\n"), start=1):
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
