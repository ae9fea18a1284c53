"""Text to ids and back."""

import time
import unicodedata

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from augur_tok import Tokenizer, TokenizerError

TEXTS = [
    "->",
    "(x):\n",
    "12345",
    "a  b   c\n\n\n  d \t e  ",
    "I'm, they'LL, it's",
    "世界你好，世界",
    "x != y , z .",
    " hello",
    "🙂 Привет",
    "\x00\x7f",
]


@pytest.mark.parametrize("text", TEXTS)
def test_encode_gives_the_ids_of_the_tokenizers_library(
    tokenizer: Tokenizer, backend: tokenizers.Tokenizer, text: str
) -> None:
    assert tokenizer.encode(text) == backend.encode(text).ids


@pytest.mark.parametrize("text", TEXTS)
def test_decode_returns_the_encoded_text_unchanged(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(deadline=None, derandomize=True)
@given(text=st.text())
def test_any_text_comes_back_in_its_nfc_form(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


def test_every_digit_is_a_token_of_its_own(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.encode("12345")) == 5


@pytest.mark.parametrize("allow_special", [False, True])
def test_an_empty_text_has_no_ids(tokenizer: Tokenizer, allow_special: bool) -> None:
    assert tokenizer.encode("", allow_special=allow_special) == []


def test_in_plain_text_no_added_token_is_recognised(tokenizer: Tokenizer) -> None:
    added = {
        tokenizer.token_id(token)
        for token in (*tokenizer.special_tokens, "<tool_call>", "</think>")
    }
    text = "a<|im_end|>b<|endoftext|><|im_start|> <tool_call></think>"
    token_ids = tokenizer.encode(text)
    assert not added & set(token_ids)
    assert tokenizer.decode(token_ids) == text


def test_with_allow_special_all_added_tokens_are_recognised(
    tokenizer: Tokenizer, backend: tokenizers.Tokenizer
) -> None:
    text = "a<|im_end|>\n<tool_call> b"
    token_ids = tokenizer.encode(text, allow_special=True)
    assert token_ids == backend.encode(text).ids
    assert {tokenizer.token_id("<|im_end|>"), tokenizer.token_id("<tool_call>")} <= set(token_ids)


def test_skip_special_tokens_leaves_out_special_tokens_alone(tokenizer: Tokenizer) -> None:
    token_ids = tokenizer.encode("a<|im_end|><tool_call>b", allow_special=True)
    assert tokenizer.decode(token_ids, skip_special_tokens=True) == "a<tool_call>b"


def test_bytes_that_are_no_character_decode_to_replacement_characters(
    tokenizer: Tokenizer,
) -> None:
    # In the byte-level alphabet "ÿ" spells the byte 0xFF and "ä" spells 0xE4.
    token_ids = [tokenizer.token_id("ÿ"), *tokenizer.encode(" ok"), tokenizer.token_id("ä")]
    assert tokenizer.decode(token_ids) == "\ufffd ok\ufffd"


def test_ids_beyond_the_vocabulary_have_no_text(tokenizer: Tokenizer) -> None:
    known = tokenizer.encode("ok")
    beyond = [tokenizer.vocab_size, 151_935, 2**32, 2**70]
    assert tokenizer.decode([*beyond, *known, *beyond]) == "ok"


@pytest.mark.parametrize(("token_id", "found"), [(-1, "found -1"), (1.0, "found float 1.0")])
def test_what_is_no_token_id_is_refused_by_decode(
    tokenizer: Tokenizer, token_id: object, found: str
) -> None:
    with pytest.raises(TokenizerError, match=found):
        tokenizer.decode([token_id])  # type: ignore[list-item]


def test_a_lone_surrogate_is_refused_with_its_place(tokenizer: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match=r"lone surrogate .* at character 2"):
        tokenizer.encode("ab\ud800")


def test_what_is_no_text_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="expected text"):
        tokenizer.encode(b"ab")  # type: ignore[arg-type]


def test_token_id_is_the_vocabularys(tokenizer: Tokenizer, backend: tokenizers.Tokenizer) -> None:
    for token in ("a", "Ġ", "<|im_end|>", "<think>"):
        assert tokenizer.token_id(token) == backend.get_vocab()[token]
    with pytest.raises(TokenizerError, match="no token 'no such token'"):
        tokenizer.token_id("no such token")


def test_special_tokens_are_those_flagged_special(tokenizer: Tokenizer) -> None:
    assert list(tokenizer.special_tokens) == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    with pytest.raises(TypeError):
        tokenizer.special_tokens["<|new|>"] = 1  # type: ignore[index]


def test_time_grows_in_step_with_a_text_without_spaces(tokenizer: Tokenizer) -> None:
    def cpu_s(length: int) -> float:
        start = time.process_time()
        token_ids = tokenizer.encode("a" * length)
        elapsed = time.process_time() - start
        assert tokenizer.decode(token_ids) == "a" * length
        return elapsed

    # Ten times the text; the best of several, since the machine's speed may change in between. In
    # step it takes ten times as long, and a hundred times if it grew with the square.
    pairs = [(cpu_s(20_000), cpu_s(200_000)) for _ in range(3)]
    assert min(long for _, long in pairs) < 30 * min(short for short, _ in pairs)
