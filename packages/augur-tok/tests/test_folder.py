"""Opening a checkpoint folder: which files count, and what is refused."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from augur_tok import Tokenizer, TokenizerError

SAMPLE = "def f(x):\n    return 'Grüße'  # 世界 <|im_end|><tool_call> 🙂"
Copier = Callable[[Path, dict[str, Any]], Path]


def same(first: Tokenizer, second: Tokenizer) -> bool:
    """Whether two tokenizers agree in all that a folder decides."""
    return (
        first.encode(SAMPLE) == second.encode(SAMPLE)
        and first.encode(SAMPLE, allow_special=True) == second.encode(SAMPLE, allow_special=True)
        and first.special_tokens == second.special_tokens
        and first.eos_token_id == second.eos_token_id
        and first.vocab_size == second.vocab_size
    )


def test_vocab_and_merges_make_the_same_tokenizer_as_tokenizer_json(
    tokenizer: Tokenizer, vocab_folder: Path
) -> None:
    assert same(Tokenizer.from_folder(vocab_folder), tokenizer)


def test_a_folder_may_be_given_as_text(tokenizer: Tokenizer, folder: Path) -> None:
    assert same(Tokenizer.from_folder(str(folder)), tokenizer)


def test_tokenizer_json_wins_over_vocab_and_merges(
    tokenizer: Tokenizer, folder: Path, with_files: Copier
) -> None:
    both = with_files(folder, {"vocab.json": "broken", "merges.txt": "broken"})
    assert same(Tokenizer.from_folder(both), tokenizer)


def test_the_configuration_decides_names_and_sizes(
    tokenizer: Tokenizer, backend: tokenizers.Tokenizer
) -> None:
    assert tokenizer.eos_token_id == backend.token_to_id("<|im_end|>")
    assert tokenizer.vocab_size == backend.get_vocab_size()
    assert tokenizer.has_chat_template


def test_without_a_configuration_the_flags_of_tokenizer_json_count(
    tokenizer: Tokenizer, folder: Path, with_files: Copier
) -> None:
    bare = Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": None}))
    assert bare.special_tokens == tokenizer.special_tokens
    assert bare.eos_token_id is None
    assert not bare.has_chat_template


def test_qwen2s_default_eos_holds_where_the_configuration_is_silent(
    folder: Path, with_files: Copier
) -> None:
    silent = {"tokenizer_class": "Qwen2Tokenizer"}
    tokenizer = Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": silent}))
    assert tokenizer.eos_token_id == tokenizer.token_id("<|endoftext|>")


def test_the_configurations_special_flag_counts_before_the_tokenizers(
    folder: Path, config: dict[str, Any], with_files: Copier
) -> None:
    flags = {"<tool_call>": True, "<|im_start|>": False}
    decoder = {
        token_id: {**entry, "special": flags.get(entry["content"], entry["special"])}
        for token_id, entry in config["added_tokens_decoder"].items()
    }
    edited = {**config, "added_tokens_decoder": decoder}
    tokenizer = Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": edited}))
    assert set(tokenizer.special_tokens) == {"<|endoftext|>", "<|im_end|>", "<tool_call>"}


def test_names_may_be_written_as_objects(
    folder: Path, config: dict[str, Any], with_files: Copier
) -> None:
    edited = {**config, "eos_token": {"__type": "AddedToken", "content": "<|endoftext|>"}}
    tokenizer = Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": edited}))
    assert tokenizer.eos_token_id == tokenizer.token_id("<|endoftext|>")


def test_the_older_files_for_added_tokens_are_read(
    tokenizer: Tokenizer, vocab_folder: Path, config: dict[str, Any], with_files: Copier
) -> None:
    ids = {entry["content"]: int(key) for key, entry in config["added_tokens_decoder"].items()}
    older = with_files(
        vocab_folder,
        {
            "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer"},
            "added_tokens.json": ids,
            "special_tokens_map.json": {
                "additional_special_tokens": ["<|im_start|>"],
                "eos_token": {"content": "<|im_end|>", "lstrip": False},
                "pad_token": "<|endoftext|>",
            },
        },
    )
    assert same(Tokenizer.from_folder(older), tokenizer)


@pytest.mark.parametrize("kind", ["folder", "vocab_folder"])
def test_loading_does_not_depend_on_the_locales_encoding(
    kind: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    program = f"from augur_tok import Tokenizer; Tokenizer.from_folder({str(folder)!r})"
    options = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    subprocess.run([sys.executable, *options, "-c", program], check=True)


def test_a_training_files_truncation_and_padding_do_not_touch_a_prompt(
    tokenizer: Tokenizer, backend: tokenizers.Tokenizer, folder: Path, with_files: Copier
) -> None:
    trained = tokenizers.Tokenizer.from_str(backend.to_str())
    trained.enable_truncation(2)
    trained.enable_padding(length=50)
    edited = with_files(folder, {"tokenizer.json": trained.to_str()})
    assert same(Tokenizer.from_folder(edited), tokenizer)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"expected tokenizer.json, or both .*Fetch"):
        Tokenizer.from_folder(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "holds a JSON list"),
        ("{}", "pre_tokenizer has the steps"),
        ({"model": 1}, "tokenizers library reads"),
        ('{"version": ' + "9" * 5_000 + "}", "thousands of digits"),
        ('{"version": "1.0", "version": "1.0"}', "twice"),
        ('{"version": NaN}', "NaN"),
        (b"\xff\xfe", "is not UTF-8"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer"),
    ],
)
def test_a_broken_tokenizer_json_is_named(
    backend: tokenizers.Tokenizer, folder: Path, with_files: Copier, content: Any, reason: str
) -> None:
    if isinstance(content, dict):
        content = {**json.loads(backend.to_str()), **content}
    with pytest.raises(TokenizerError, match=rf"tokenizer\.json.*{reason}"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer.json": content}))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"decoder": None}, "decoder NoneType"),
        ({"normalizer": {"type": "Lowercase"}}, "normalizer has a step of type 'Lowercase'"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "has a step of type 'Whitespace'"),
        (
            {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend"}]}},
            "normalizer has a step of type 'Prepend'",
        ),
        ({"decoder": [1]}, r"decoder holds \[1\]"),
    ],
)
def test_a_tokenizer_json_of_another_kind_is_refused(
    backend: tokenizers.Tokenizer,
    folder: Path,
    with_files: Copier,
    change: dict[str, Any],
    reason: str,
) -> None:
    edited = {**json.loads(backend.to_str()), **change}
    with pytest.raises(TokenizerError, match=reason):
        Tokenizer.from_folder(with_files(folder, {"tokenizer.json": edited}))


def test_a_tokenizer_that_adds_a_first_token_is_refused(
    backend: tokenizers.Tokenizer, folder: Path, with_files: Copier
) -> None:
    opening = tokenizers.Tokenizer.from_str(backend.to_str())
    opening.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|endoftext|> $A",
        special_tokens=[("<|endoftext|>", backend.token_to_id("<|endoftext|>"))],
    )
    with pytest.raises(TokenizerError, match=r"post_processor adds 1 token"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer.json": opening.to_str()}))


def test_dropout_is_refused(
    backend: tokenizers.Tokenizer, folder: Path, with_files: Copier
) -> None:
    edited = json.loads(backend.to_str())
    edited["model"]["dropout"] = 0.5
    with pytest.raises(TokenizerError, match=r"dropout is 0.5"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer.json": edited}))


def test_an_added_token_that_looks_at_its_neighbours_is_refused(
    backend: tokenizers.Tokenizer, folder: Path, with_files: Copier
) -> None:
    edited = json.loads(backend.to_str())
    edited["added_tokens"][0]["lstrip"] = True
    with pytest.raises(TokenizerError, match=r"<\|endoftext\|>' sets lstrip"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer.json": edited}))


def test_an_added_token_whose_id_leaves_a_gap_is_refused(
    backend: tokenizers.Tokenizer, folder: Path, with_files: Copier
) -> None:
    edited = json.loads(backend.to_str())
    edited["added_tokens"][-1]["id"] = 900
    with pytest.raises(TokenizerError, match=r"has the id 900, which leaves a gap"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer.json": edited}))


@pytest.mark.parametrize("missing", ["vocab.json", "merges.txt"])
def test_vocab_and_merges_are_needed_both(
    vocab_folder: Path, with_files: Copier, missing: str
) -> None:
    with pytest.raises(TokenizerError, match="only one of the two"):
        Tokenizer.from_folder(with_files(vocab_folder, {missing: None}))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("vocab.json", "{", "is not JSON"),
        ("vocab.json", [], "holds a JSON list"),
        ("vocab.json", {"a": "0"}, "'a' has the id '0'"),
        ("vocab.json", {"a": -1}, "'a' has the id -1"),
        ("vocab.json", {"a": 0, "b": 0}, "two tokens have the same id"),
        ("vocab.json", {"a": 0}, "do not make a BPE together"),
        ("merges.txt", "#version: 0.2\nab\n", "line 2: found 'ab'"),
        ("merges.txt", "a b c\n", "line 1: found 'a b c'"),
        ("merges.txt", b"\xc3", "is not UTF-8"),
        ("tokenizer_config.json", "{", "is not JSON"),
        ("tokenizer_config.json", {}, "no added_tokens_decoder"),
        ("tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer"}, "'LlamaTokenizer'"),
        ("tokenizer_config.json", {"add_bos_token": True}, "sets add_bos_token"),
        ("tokenizer_config.json", {"added_tokens_decoder": []}, "is a list"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"9": "x"}}, "holds '9': 'x'"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"9": {}}}, "expected a token's text"),
        ("tokenizer_config.json", {"added_tokens_decoder": {}, "eos_token": 5}, "holds 5"),
    ],
)
def test_a_malformed_file_is_named_with_what_is_wrong(
    vocab_folder: Path, with_files: Copier, name: str, content: Any, reason: str
) -> None:
    edited = with_files(vocab_folder, {name: content})
    with pytest.raises(TokenizerError, match=reason) as raised:
        Tokenizer.from_folder(edited)
    assert name in str(raised.value)


def test_a_vocabulary_without_all_bytes_is_refused(vocab_folder: Path, with_files: Copier) -> None:
    # "ÿ" spells the byte 0xFF, which no merge uses; another token takes its id.
    vocab = json.loads((vocab_folder / "vocab.json").read_text(encoding="utf-8"))
    vocab["no bytes"] = vocab.pop("ÿ")
    with pytest.raises(TokenizerError, match=r"lacks 1 of the 256 byte tokens"):
        Tokenizer.from_folder(with_files(vocab_folder, {"vocab.json": vocab}))


def test_added_tokens_that_do_not_fit_the_vocabulary_are_refused(
    vocab_folder: Path, config: dict[str, Any], with_files: Copier
) -> None:
    shifted = {
        str(int(token_id) + 1): entry for token_id, entry in config["added_tokens_decoder"].items()
    }
    edited = {**config, "added_tokens_decoder": shifted}
    with pytest.raises(TokenizerError, match="of different checkpoints"):
        Tokenizer.from_folder(with_files(vocab_folder, {"tokenizer_config.json": edited}))


def test_a_name_for_an_unknown_token_is_refused(
    folder: Path, config: dict[str, Any], with_files: Copier
) -> None:
    edited = {**config, "eos_token": "<|nowhere|>"}
    with pytest.raises(TokenizerError, match=r"has no token '<\|nowhere\|>'"):
        Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": edited}))


ALL_FILES = (
    "tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json", "added_tokens.json",
    "special_tokens_map.json", "chat_template.jinja", "additional_chat_templates/a.jinja",
)  # fmt: skip


@pytest.mark.parametrize("name", ALL_FILES)
def test_what_has_a_files_name_and_is_none_is_refused_not_waited_for(
    vocab_folder: Path, with_files: Copier, name: str
) -> None:
    edited = with_files(vocab_folder, {name: "{}"})
    if name in ("added_tokens.json", "special_tokens_map.json"):  # the older files then count
        (edited / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    (edited / name).unlink()
    os.mkfifo(edited / name)
    with pytest.raises(TokenizerError, match=rf"{name}: is a pipe, expected a file"):
        Tokenizer.from_folder(edited)


@pytest.mark.parametrize("name", ["vocab.json", "chat_template.jinja"])
def test_a_link_out_of_a_snapshot_is_refused(vocab_folder: Path, tmp_path: Path, name: str) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / "c"
    shutil.copytree(vocab_folder, snapshot)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("{}", encoding="utf-8")
    (snapshot / name).unlink(missing_ok=True)
    (snapshot / name).symlink_to(elsewhere)
    with pytest.raises(TokenizerError, match=rf"{name}: is a link to .*elsewhere.* Refused"):
        Tokenizer.from_folder(snapshot)
