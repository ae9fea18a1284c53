"""What a text goes through: a step or a merge that is missing gives other ids, and is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import pre_tokenizers, processors

from augur_tok import FAMILIES, QWEN2, Family, Tokenizer, TokenizerError

Copier = Callable[[Path, dict[str, Any]], Path]

SPLIT = {"type": "Split", "pattern": {"Regex": QWEN2.split}, "behavior": "Isolated"}
SPLIT["invert"] = False
SPELL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def steps(*listed: dict[str, Any]) -> dict[str, Any]:
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": list(listed)}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"normalizer": None}, "normalizer has the steps none, expected NFC"),
        ({"normalizer": {"type": "Sequence", "normalizers": []}}, "has the steps none"),
        (
            {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 2}},
            "has the steps NFC, NFC",
        ),
        ({"pre_tokenizer": None}, r"pre_tokenizer has the steps \[\], expected a Split"),
        ({"pre_tokenizer": SPELL}, "expected a Split"),
        ({"pre_tokenizer": {**SPELL, "use_regex": True}}, "expected a Split"),
        (steps(SPLIT), "then a ByteLevel"),
        (steps(SPELL, SPLIT), "expected a Split"),
        (steps(SPLIT, SPLIT, SPELL), "expected a Split"),
        (steps(SPLIT, {**SPELL, "use_regex": True}), "neither a pattern nor a leading space"),
        (steps(SPLIT, {**SPELL, "add_prefix_space": True}), "nor a leading space"),
        (steps({**SPLIT, "behavior": "MergedWithNext"}, SPELL), "matches are isolated"),
        (steps({**SPLIT, "behavior": "Removed"}, SPELL), "matches are isolated"),
        (steps({**SPLIT, "invert": True}, SPELL), "matches are isolated"),
        (
            steps({**SPLIT, "pattern": {"Regex": "(a+)+$"}}, SPELL),
            r"splits text by \{'Regex': '\(a\+\)\+\$'\}; only the pattern of Qwen1\.5, Qwen2",
        ),
        (steps({**SPLIT, "pattern": {"String": QWEN2.split}}, SPELL), "splits text by"),
    ],
)
def test_a_step_that_is_missing_or_another_is_refused_by_name(
    backend: tokenizers.Tokenizer,
    folder: Path,
    with_files: Copier,
    change: dict[str, Any],
    reason: str,
) -> None:
    edited = {**json.loads(backend.to_str()), **change}
    with pytest.raises(TokenizerError, match=rf"tokenizer\.json: .*{reason}"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer.json": edited}))


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        (0, "has no merges"),
        (1, r"has no merges for [\d,]+ tokens"),
        (-1, "has no merges for 1 tokens"),
    ],
)
@pytest.mark.parametrize("name", ["tokenizer.json", "merges.txt"])
def test_merges_that_are_missing_or_cut_short_are_refused(
    folder: Path, vocab_folder: Path, with_files: Copier, name: str, keep: int, reason: str
) -> None:
    if name == "tokenizer.json":
        document = json.loads((folder / name).read_text(encoding="utf-8"))
        document["model"]["merges"] = document["model"]["merges"][:keep]
        edited = with_files(folder, {name: document})
    else:
        lines = (vocab_folder / name).read_text(encoding="utf-8").splitlines()
        version, merges = lines[0], lines[1:]
        assert version.startswith("#version")
        edited = with_files(vocab_folder, {name: "\n".join([version, *merges[:keep]])})
    with pytest.raises(TokenizerError, match=rf"{name}: {reason}"):
        Tokenizer.from_folder(edited)


def test_an_empty_merges_file_is_refused(vocab_folder: Path, with_files: Copier) -> None:
    with pytest.raises(TokenizerError, match=r"merges\.txt: has no merges, so that every text"):
        Tokenizer.from_folder(with_files(vocab_folder, {"merges.txt": ""}))


def test_merges_may_be_written_as_pairs_or_as_texts(
    tokenizer: Tokenizer, folder: Path, with_files: Copier
) -> None:
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    merges = document["model"]["merges"]
    other = [" ".join(one) if isinstance(one, list) else one.split(" ") for one in merges]
    document["model"]["merges"] = other
    opened = Tokenizer.from_folder(with_files(folder, {"tokenizer.json": document}))
    assert opened.encode("hello sky 世界") == tokenizer.encode("hello sky 世界")


def test_a_special_token_in_the_vocabulary_needs_no_merge(
    backend: tokenizers.Tokenizer, folder: Path, with_files: Copier
) -> None:
    document = json.loads(backend.to_str())
    vocabulary = document["model"]["vocab"]
    vocabulary["<|extra|>"] = len(vocabulary)
    for token in document["added_tokens"]:
        token["id"] += 1
    config = {"additional_special_tokens": ["<|extra|>"]}
    files = {"tokenizer.json": document, "tokenizer_config.json": config}
    assert "<|extra|>" in Tokenizer.from_folder(with_files(folder, files)).special_tokens


# A family that differs in everything in which two can: it splits at digits, leaves decomposed
# accents alone, and begins every text with a token.
TOY = Family(
    names=("Toy",),
    classes=("ToyTokenizer",),
    split=r"\p{N}|[^\p{N}]+",
    normalizers=(),
    begins_with="<|im_start|>",
    defaults={"eos_token": "<|endoftext|>"},
)


@pytest.fixture
def toy_folder(backend: tokenizers.Tokenizer, folder: Path, with_files: Copier) -> Path:
    toy = tokenizers.Tokenizer.from_str(backend.to_str())
    toy.normalizer = None  # type: ignore[assignment]
    toy.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(TOY.split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    begin = "<|im_start|>"
    toy.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A", special_tokens=[(begin, toy.token_to_id(begin))]
    )
    config = {"tokenizer_class": "ToyTokenizer"}
    return with_files(folder, {"tokenizer.json": toy.to_str(), "tokenizer_config.json": config})


def test_another_family_is_another_record(toy_folder: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="only the pattern of Qwen"):
        Tokenizer.from_folder(toy_folder)
    toy = Tokenizer.from_folder(toy_folder, families=(*FAMILIES, TOY))
    begin = tokenizer.token_id("<|im_start|>")
    assert toy.encode("e\u0301")[0] == begin
    assert toy.decode(toy.encode("e\u0301"), skip_special_tokens=True) == "e\u0301"
    assert toy.encode("") == [begin]
    assert toy.eos_token_id == tokenizer.token_id("<|endoftext|>")


def test_a_familys_beginning_must_be_in_the_vocabulary(toy_folder: Path) -> None:
    lacking = replace(TOY, begins_with="<|begin|>")
    with pytest.raises(TokenizerError, match="post_processor adds 1 token"):
        Tokenizer.from_folder(toy_folder, families=[lacking])


def test_a_chat_begins_with_what_its_template_writes(toy_folder: Path) -> None:
    template = "<|im_start|>{{ messages[0].content }}"
    (toy_folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    toy = Tokenizer.from_folder(toy_folder, families=[TOY])
    token_ids = toy.encode_chat([{"role": "user", "content": "Hi"}])
    assert token_ids == toy.encode("Hi")
    assert token_ids.count(toy.token_id("<|im_start|>")) == 1


def test_a_family_is_found_by_its_class_where_there_is_no_tokenizer_json(
    vocab_folder: Path, config: dict[str, Any], with_files: Copier
) -> None:
    edited = {**config, "tokenizer_class": "ToyTokenizer", "add_bos_token": True}
    files = with_files(vocab_folder, {"tokenizer_config.json": edited})
    toy = Tokenizer.from_folder(files, families=(QWEN2, TOY))
    assert toy.decode(toy.encode("e\u0301 1"), skip_special_tokens=True) == "e\u0301 1"
    with pytest.raises(TokenizerError, match="tokenizer_class is 'ToyTokenizer'"):
        Tokenizer.from_folder(files)


def test_the_files_that_were_read_are_told_and_no_others(
    folder: Path, vocab_folder: Path, with_files: Copier
) -> None:
    def names(opened: Tokenizer, at: Path) -> list[str]:
        return [str(path.relative_to(at)) for path in opened.files]

    assert names(Tokenizer.from_folder(folder), folder) == [
        "tokenizer_config.json",
        "tokenizer.json",
    ]
    edited = with_files(
        vocab_folder,
        {
            "chat_template.jinja": "a",
            "additional_chat_templates/tool_use.jinja": "b",
            "notes.txt": "no file of ours",
            "answers.json": {},
            "special_tokens_map.json": {},
        },
    )
    assert names(Tokenizer.from_folder(edited), edited) == [
        "tokenizer_config.json",
        "vocab.json",
        "merges.txt",
        "additional_chat_templates/tool_use.jinja",
        "chat_template.jinja",
    ]
