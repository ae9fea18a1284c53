"""Whatever a tokenizer's files hold: a tokenizer that works, or an error of ours."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_tok import Tokenizer, TokenizerError
from fuzz_bounds import bounded
from reader_bounds import fuzzing

pytestmark = pytest.mark.gate

FILES = {
    "tokenizer.json": "whole",
    "tokenizer_config.json": "whole",
    "vocab.json": "parts",
    "merges.txt": "parts",
    "added_tokens.json": "legacy",
    "special_tokens_map.json": "legacy",
}

VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 255, 2**31, 2**32, 2**63, 2**64, 10**4_000, 1.5, 1e308, "", "a",
    "\ud800", "\0", "é" * 99, "<|im_end|>", "Ġ", "x" * 100_000, [], [[]], {}, [None], ["a", "b"],
    {"type": "Sequence", "normalizers": []}, {"Regex": "(a+)+$"}, {"String": ""}, {"type": "BPE"},
    {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 9_999}, {"type": "ByteLevel"},
    {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, {"type": "Metaspace"},
    {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 7}, {"content": "<|im_end|>", "id": 3},
    {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}},
    {"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 9},
    "{% for n in range(99999) %}{% for m in range(99999) %}{% endfor %}{% endfor %}",
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same small tokenizer in each of the forms in which it may be written."""
    root = tmp_path_factory.mktemp("fuzzed")
    whole = write_tiny_checkpoint(root / "whole")
    backend = tokenizers.Tokenizer.from_file(str(whole / "tokenizer.json"))
    added = backend.get_added_tokens_decoder()
    config = json.loads((whole / "tokenizer_config.json").read_text())
    for name in ("parts", "legacy"):
        (root / name).mkdir()
        backend.model.save(str(root / name))
    modern = {
        str(token_id): {"content": token.content, "special": token.special, "normalized": False}
        for token_id, token in added.items()
    }
    write_json(root / "parts/tokenizer_config.json", config | {"added_tokens_decoder": modern})
    write_json(root / "legacy/tokenizer_config.json", config)
    write_json(root / "legacy/added_tokens.json", {t.content: n for n, t in added.items()})
    names = {"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]}
    write_json(root / "legacy/special_tokens_map.json", names)
    return {name: root / name for name in ("whole", "parts", "legacy")}


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def with_values(document: Any, rng: random.Random) -> Any:
    """The JSON value with one of its parts replaced, dropped, doubled or renamed."""
    if not isinstance(document, dict | list) or not document or rng.random() < 0.15:
        return rng.choice(VALUES)
    keys: list[Any] = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = rng.choice(keys)
    # The vocabulary is most of a file: what stands around it is as interesting.
    changed = document.copy()
    fate = rng.random()
    if fate < 0.1:
        del changed[key]
    elif fate < 0.2:
        other = rng.choice([*keys, "\ud800", "9" * 5_000, "-1"]) if type(key) is str else key
        changed[other] = changed[key]
    else:
        changed[key] = with_values(document[key], rng)
    return changed


def with_bytes(content: bytes, rng: random.Random) -> bytes:
    """The file cut short, or with some bytes changed, dropped or put in."""
    if rng.random() < 0.2:
        return content[: rng.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed))
        put_in = rng.choice([b"", b"\xff", b"\0", b" ", b"\n", b'"', b"{", b"[" * 9_999, b"9" * 40])
        changed[place : place + rng.randint(0, 3)] = put_in
    return bytes(changed)


def mutated(content: bytes, seed: int) -> bytes:
    """A file of JSON or text, a little different."""
    rng = random.Random(seed)
    if content.startswith(b"{") and rng.random() < 0.7:
        document = json.loads(content)
        for _ in range(rng.randint(1, 3)):
            document = with_values(document, rng)
        try:
            return json.dumps(document).encode()
        except ValueError:  # a number too long to be written
            return b"{" + b'"a": ' + b"9" * 9_999 + b"}"
    return with_bytes(content, rng)


def use(tokenizer: Tokenizer) -> None:
    """Everything that a program does with a tokenizer."""
    text = "Why é\u0301 世界 <|im_end|>\n  12 " + "a" * 2_000
    for token_ids in (tokenizer.encode(text), tokenizer.encode(text, allow_special=True)):
        assert isinstance(tokenizer.decode(token_ids), str)
    stream = tokenizer.stream()
    pieces = [stream.push(token_id) for token_id in range(350)]
    assert "".join(pieces) + stream.finish() == tokenizer.decode(
        range(350), skip_special_tokens=True
    )
    assert tokenizer.vocab_size > 0
    assert tokenizer.eos_token_id is None or tokenizer.eos_token_id >= 0
    assert tokenizer.encode_chat([{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize("name", FILES)
def test_a_mutated_file_gives_a_tokenizer_or_our_error(
    name: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    source = folders[FILES[name]]
    folder = shutil.copytree(source, tmp_path / "mutated")
    content = (source / name).read_bytes()

    @fuzzing
    @given(seed=st.integers(0, 2**64))
    def fuzz(seed: int) -> None:
        (folder / name).write_bytes(mutated(content, seed))
        refusal = ""
        with bounded():
            try:
                use(Tokenizer.from_folder(folder))
            except TokenizerError as error:
                refusal = str(error)
        assert "MemoryError" not in refusal

    fuzz()


@pytest.mark.parametrize("name", FILES)
def test_the_unchanged_file_gives_a_tokenizer_that_works(
    name: str, folders: dict[str, Path]
) -> None:
    use(Tokenizer.from_folder(folders[FILES[name]]))


def test_mutations_change_the_file() -> None:
    assert len({mutated(b'{"a": [1, 2, 3], "b": "c"}', seed) for seed in range(50)}) > 30
