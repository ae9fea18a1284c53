"""The streaming decoder."""

import itertools

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from augur_tok import StreamDecoder, Tokenizer, TokenizerError
from augur_tok.token_bytes import BYTE_OF_CHARACTER


def streamed(tokenizer: Tokenizer, token_ids: list[int], skip: bool = False) -> list[str]:
    """What each push returned, and what finish did."""
    stream = tokenizer.stream(skip_special_tokens=skip)
    return [*(stream.push(token_id) for token_id in token_ids), stream.finish()]


# Ids past 407 are beyond the small vocabulary.
@settings(deadline=None, derandomize=True)
@given(token_ids=st.lists(st.integers(0, 420), max_size=40), skip=st.booleans())
def test_joined_pieces_are_the_librarys_decoding_of_any_ids(
    tokenizer: Tokenizer, backend: tokenizers.Tokenizer, token_ids: list[int], skip: bool
) -> None:
    expected = backend.decode(token_ids, skip_special_tokens=skip)
    assert tokenizer.decode(token_ids, skip_special_tokens=skip) == expected
    assert "".join(streamed(tokenizer, token_ids, skip)) == expected


def test_every_short_byte_sequence_decodes_as_the_library_decodes_it(
    tokenizer: Tokenizer, backend: tokenizers.Tokenizer
) -> None:
    # The bytes at the edges of UTF-8's ranges: between them all behave alike.
    edges = bytes.fromhex("00 7f 80 8f 90 9f a0 bf c1 c2 df e0 e1 ed ee ef f0 f1 f4 f5 ff")
    spelling = {byte: character for character, byte in BYTE_OF_CHARACTER.items()}
    token_of = {byte: backend.token_to_id(spelling[byte]) for byte in edges}
    sequences = [
        [token_of[byte] for byte in sequence]
        for length in (1, 2, 3)
        for sequence in itertools.product(edges, repeat=length)
    ]
    # Three bytes of a longest character, with any byte after them.
    sequences += [[token_of[byte] for byte in (0xF0, 0x90, 0x80, last)] for last in edges]
    for token_ids, expected in zip(sequences, backend.decode_batch(sequences), strict=True):
        assert tokenizer.decode(token_ids) == expected
        assert "".join(streamed(tokenizer, token_ids)) == expected


def test_a_character_in_several_tokens_is_emitted_when_it_is_whole(tokenizer: Tokenizer) -> None:
    # "ð", "Ł", "ĺ" and "Ģ" spell the four bytes of an emoji.
    token_ids = [tokenizer.token_id(token) for token in "ðŁĺĢ"]
    assert streamed(tokenizer, token_ids) == ["", "", "", "😀", ""]


def test_an_invalid_byte_neither_stalls_the_stream_nor_loses_what_follows(
    tokenizer: Tokenizer,
) -> None:
    token_ids = [tokenizer.token_id("ÿ"), *tokenizer.encode(" ok")]
    assert streamed(tokenizer, token_ids)[0] == "\ufffd"
    assert "".join(streamed(tokenizer, token_ids)) == "\ufffd ok"


def test_a_real_leading_space_is_kept(tokenizer: Tokenizer) -> None:
    assert "".join(streamed(tokenizer, tokenizer.encode(" hello"))) == " hello"


def test_a_skipped_token_does_not_cut_a_character(tokenizer: Tokenizer) -> None:
    end = tokenizer.token_id("<|im_end|>")
    first, second = tokenizer.token_id("Ã"), tokenizer.token_id("©")
    assert streamed(tokenizer, [first, end, second], skip=True) == ["", "", "é", ""]
    assert streamed(tokenizer, [first, end, second]) == ["", "\ufffd<|im_end|>", "\ufffd", ""]


def test_special_tokens_are_skipped_unless_asked_for(tokenizer: Tokenizer) -> None:
    end = tokenizer.token_id("<|im_end|>")
    assert tokenizer.stream().push(end) == ""
    assert tokenizer.stream(skip_special_tokens=False).push(end) == "<|im_end|>"


def test_finish_gives_a_replacement_character_for_an_incomplete_one(tokenizer: Tokenizer) -> None:
    assert streamed(tokenizer, [tokenizer.token_id("ð")]) == ["", "\ufffd"]


def test_a_finished_stream_takes_no_more_tokens(tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream()
    assert stream.finish() == ""
    assert stream.finish() == ""
    with pytest.raises(TokenizerError, match="finished"):
        stream.push(0)


def test_a_negative_id_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="found -1"):
        tokenizer.stream().push(-1)


def test_two_streams_do_not_disturb_each_other(tokenizer: Tokenizer) -> None:
    first, second = tokenizer.stream(), tokenizer.stream()
    lead, rest = tokenizer.token_id("Ã"), tokenizer.token_id("©")
    assert [first.push(lead), second.push(rest), first.push(rest)] == ["", "\ufffd", "é"]


def test_each_token_is_looked_up_once_however_long_the_text() -> None:
    looked_up: list[int] = []

    def token_bytes(token_id: int) -> bytes:
        looked_up.append(token_id)
        return b"ab"

    stream = StreamDecoder(token_bytes, frozenset())
    assert [stream.push(token_id) for token_id in range(1000)] == ["ab"] * 1000
    assert looked_up == list(range(1000))


def test_what_is_passed_over_can_be_asked_for(tokenizer: Tokenizer) -> None:
    stream = tokenizer.stream()
    for token_id in range(420):
        pushed, passed = stream.push(token_id), stream.skipped(token_id)
        special = [text for text, known in tokenizer.special_tokens.items() if known == token_id]
        assert passed == "".join(special)
        assert not (pushed and passed)
    assert (
        tokenizer.stream(skip_special_tokens=False).skipped(tokenizer.token_id("<|im_end|>")) == ""
    )
    with pytest.raises(TokenizerError, match="token ids start at 0"):
        stream.skipped(-1)


def test_the_bytes_of_tokens_make_their_text(tokenizer: Tokenizer) -> None:
    token_ids = tokenizer.encode("Grüße 世界 🙂 <|im_end|>", allow_special=True)
    joined = b"".join(tokenizer.token_bytes(token_id) for token_id in token_ids)
    assert joined == "Grüße 世界 🙂 <|im_end|>".encode()
    assert {len(tokenizer.token_bytes(number)) for number in range(256)} == {1}
    assert tokenizer.token_bytes(10**9) == b""
    for wrong in (-1, "a"):
        with pytest.raises(TokenizerError, match="token ids"):
            tokenizer.token_bytes(wrong)  # type: ignore[arg-type]
