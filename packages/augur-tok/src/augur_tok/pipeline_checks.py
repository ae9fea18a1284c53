"""The steps of a tokenizer.json through which a text goes: Qwen's, and no others.

A step may be a program of its own: a regular expression that takes for ever on some text, or a
replacement that makes a megabyte of a letter. So the steps are looked at before any is built.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from augur_tok.errors import TokenizerError
from augur_tok.qwen2_bpe import QWEN2_SPLIT
from augur_tok.shown import shown

STEPS = {
    "normalizer": ("NFC",),
    "pre_tokenizer": ("ByteLevel", "Split"),
    "post_processor": ("ByteLevel", "TemplateProcessing"),
    "decoder": ("ByteLevel",),
}
# A Sequence lists its steps under one of these.
LISTS = ("normalizers", "pretokenizers", "processors", "decoders")


def check_pipeline(path: Path, document: Mapping[str, Any]) -> None:
    """Every step is one of Qwen's, and a Split is by Qwen's pattern.

    Raises:
        TokenizerError: a step is of another kind, or malformed.
    """
    for part, allowed in STEPS.items():
        for step in _steps(path, part, document.get(part), depth=0):
            kind = step.get("type")
            if kind not in allowed:
                raise TokenizerError(
                    f"{path}: {part} has a step of type {shown(kind)}; Qwen's has none but "
                    f"{', '.join(allowed)}, and no other is supported. Use a Qwen "
                    "checkpoint's tokenizer files."
                )
            if kind == "Split" and step.get("pattern") != {"Regex": QWEN2_SPLIT}:
                raise TokenizerError(
                    f"{path}: {part} splits text by {shown(step.get('pattern'))}; only Qwen's "
                    f"pattern is supported: {QWEN2_SPLIT}. Use a Qwen checkpoint's tokenizer files."
                )


def _steps(path: Path, part: str, value: object, depth: int) -> Iterator[dict[str, Any]]:
    if value is None:
        return
    if not isinstance(value, dict) or depth > 1:
        raise TokenizerError(
            f"{path}: {part} holds {shown(value)}, expected a step or a Sequence of steps. "
            "Fetch the file again."
        )
    if value.get("type") != "Sequence":
        yield value
        return
    for name in LISTS:
        listed = value.get(name, [])
        for step in listed if isinstance(listed, list) else [listed]:
            yield from _steps(path, part, step, depth + 1)
