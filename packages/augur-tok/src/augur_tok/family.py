"""What sets the families of tokenizers apart: one record for each, and nothing of it elsewhere.

Another family is another record: how its text is cut, what it is made of before that, what stands
before a text, and what its tokens are called.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Family:
    """One family of tokenizers.

    Attributes:
        names: the models as people call them.
        classes: the `tokenizer_class` of its tokenizer_config.json, for checkpoints that have
            vocab.json and merges.txt alone; the first where the file names none.
        split: the regular expression by which text is cut before BPE; each match stands alone.
        normalizers: the types of the tokenizers library's normalizers that text goes through.
        begins_with: the token that stands before every text that is encoded; None for none. A chat
            begins with what its template writes.
        defaults: the names, such as "eos_token", under which its class knows a token that the
            configuration does not mention.
    """

    names: tuple[str, ...]
    classes: tuple[str, ...]
    split: str
    normalizers: tuple[str, ...] = ()
    begins_with: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)


QWEN2 = Family(
    names=("Qwen1.5", "Qwen2", "Qwen2.5", "Qwen3"),
    classes=("Qwen2Tokenizer", "Qwen2TokenizerFast"),
    # Contractions, words with one leading character, single digits, runs of punctuation with the
    # line ends that follow, line ends, spaces. Source: Qwen2's tokenizer.json and transformers'
    # Qwen2Tokenizer.
    split=(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    normalizers=("NFC",),
    # What transformers' class assumes.
    defaults=dict.fromkeys(("eos_token", "unk_token", "pad_token"), "<|endoftext|>"),
)

FAMILIES = (QWEN2,)
