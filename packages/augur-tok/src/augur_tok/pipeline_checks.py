"""The steps of a tokenizer.json through which a text goes: one family's, and no others.

A step may be a program of its own: a regular expression that takes for ever on some text, or a
replacement that makes a megabyte of a letter. And one that is missing cuts a text otherwise than
the vocabulary was trained for. So the steps are looked at before any is built.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from augur_files import shown
from augur_tok.errors import broken_file
from augur_tok.family import Family

STEPS = {
    "normalizer": ("NFC",),
    "pre_tokenizer": ("ByteLevel", "Split"),
    "post_processor": ("ByteLevel", "TemplateProcessing"),
    "decoder": ("ByteLevel",),
}
# A Sequence lists its steps under one of these.
LISTS = ("normalizers", "pretokenizers", "processors", "decoders")


def family_of_pipeline(
    path: Path, document: Mapping[str, Any], families: Sequence[Family]
) -> Family:
    """The family whose steps these are: they normalise, split by its pattern, spell in bytes.

    Raises:
        TokenizerError: a step is missing, of another kind, or malformed.
    """
    steps = {part: list(_steps(path, part, document.get(part), depth=0)) for part in STEPS}
    for part, allowed in STEPS.items():
        for step in steps[part]:
            if step.get("type") not in allowed:
                found = f"{part} has a step of type {shown(step.get('type'))}"
                raise broken_file(path, f"{found}; only {', '.join(allowed)} are supported there")
    pattern = _split_pattern(path, steps["pre_tokenizer"], families)
    family = next((family for family in families if {"Regex": family.split} == pattern), None)
    if family is None:
        raise broken_file(
            path,
            f"pre_tokenizer splits text by {shown(pattern)}; only the pattern of "
            f"{_names(families)} is supported",
            "Use such a checkpoint's tokenizer files.",
        )
    normalizers = tuple(step["type"] for step in steps["normalizer"])
    if normalizers != family.normalizers:
        raise broken_file(
            path,
            f"normalizer has the steps {', '.join(normalizers) or 'none'}, expected "
            f"{', '.join(family.normalizers) or 'none'}, as {_names([family])} has",
        )
    return family


def _split_pattern(
    path: Path, steps: Sequence[Mapping[str, Any]], families: Sequence[Family]
) -> object:
    """By what text is cut, if each match stands alone and nothing but spelling follows."""
    split, spell = steps if len(steps) == 2 else ({}, {})
    isolates = [split.get(key) for key in ("type", "behavior", "invert")]
    spells = [spell.get(key) for key in ("type", "use_regex", "add_prefix_space")]
    if [isolates, spells] != [["Split", "Isolated", False], ["ByteLevel", False, False]]:
        raise broken_file(
            path,
            f"pre_tokenizer has the steps {shown(list(steps))}, expected a Split whose matches are "
            "isolated, then a ByteLevel with neither a pattern nor a leading space, as "
            f"{_names(families)} has: else a text gets other ids than the model was trained on",
        )
    return split.get("pattern")


def _names(families: Sequence[Family]) -> str:
    return ", ".join(name for family in families for name in family.names)


def _steps(path: Path, part: str, value: object, depth: int) -> Iterator[dict[str, Any]]:
    if value is None:
        return
    if not isinstance(value, dict) or depth > 1:
        raise broken_file(path, f"{part} holds {shown(value)}, expected a step or a Sequence")
    if value.get("type") != "Sequence":
        yield value
        return
    for name in LISTS:
        listed = value.get(name, [])
        for step in listed if isinstance(listed, list) else [listed]:
            yield from _steps(path, part, step, depth + 1)
