"""A generation as a stream of text: whole characters, cut at a stop string."""

import codecs
import random
from collections.abc import Sequence

import pytest
import torch

from augur_gen import Generation, GenerationError, StopConditions, StopStrings, TextStream

CPU = torch.device("cpu")
NUM_TOKENS = 100  # of the scripted steps


class ByteDecoder:
    """A tokenizer's stream decoder: token 10 stands for `vocabulary[10]`, and so on.

    A text in the vocabulary, not bytes, is that of a special token, and left out.
    """

    def __init__(self, vocabulary: Sequence[bytes | str]) -> None:
        self._vocabulary = vocabulary
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return "" if self.skipped(token_id) else self._utf8.decode(self._vocabulary[token_id])

    def skipped(self, token_id: int) -> str:
        token = self._vocabulary[token_id]
        return token if isinstance(token, str) else ""

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)


@pytest.fixture
def stream(scripted_steps):
    """`stream(tokens, stop_strings, conditions)`: a model that says these tokens, as bytes."""

    def make(
        tokens: list[bytes | str],
        stop_strings: Sequence[str] = (),
        stop: StopConditions | None = None,
    ) -> TextStream:
        steps = scripted_steps(range(len(tokens)))
        stop = stop or StopConditions(len(tokens))
        generation = Generation(steps, [1], stop, device=CPU)
        return TextStream(generation, ByteDecoder(tokens), stop_strings)

    return make


def test_pieces_are_whole_characters_and_join_to_the_whole_text(stream):
    tokens = [b" hel", b"lo ", b"\xf0\x9f", b"\x91", b"\x8d", b"\xe4\xbd\xa0\xe5", b"\xa5\xbd"]
    pieces = list(stream(tokens))
    assert pieces == [" hel", "lo ", "👍", "你", "好"]
    assert "".join(pieces) == b"".join(tokens).decode()


def test_a_byte_that_is_no_character_holds_nothing_up(stream):
    assert list(stream([b"\xff", b" ok"])) == ["\ufffd", " ok"]


def test_a_text_that_ends_inside_a_character_ends_with_a_replacement(stream):
    result = stream([b"a", b"\xe4\xbd"]).run()
    assert (result.text, result.finish_reason) == ("a\ufffd", "length")


def test_a_stop_string_ends_text_and_generation(stream):
    text = stream([b"alpha b", b"eta ga", b"mma", b" never", b" made"], ["beta gamma"])
    assert list(text) == ["alpha "]
    result = text.result()
    assert (result.text, result.stop_string) == ("alpha ", "beta gamma")
    assert (result.token_ids, result.finish_reason) == ([0, 1, 2], "stop")
    assert list(text) == []


def test_a_stop_string_that_the_last_token_completes_is_the_reason(stream):
    result = stream([b"one", b" END"], ["END"]).run()
    assert (result.text, result.finish_reason) == ("one ", "stop")
    result = stream([b"one", b" END"], ["END"], StopConditions.of(9, [1])).run()
    assert (result.text, result.finish_reason) == ("one ", "stop")


def test_a_partial_match_at_the_end_is_released(stream):
    text = stream([b"one", b" EN"], ["END"])
    assert list(text) == ["one", " ", "EN"]
    assert (text.result().text, text.result().finish_reason) == ("one EN", "length")


def test_a_replacement_character_at_the_end_can_complete_a_stop_string(stream):
    result = stream([b"a", b"\xe4"], ["\ufffd"]).run()
    assert (result.text, result.finish_reason) == ("a", "stop")


def test_random_bytes_stream_to_what_the_definition_gives(stream):
    source = random.Random(0)
    for _ in range(300):
        alphabet = [b"a", b"b", b"\xc3", b"\xa9", b"\xe4\xbd", b"\xa0", b"\xff", "é你".encode()]
        tokens = [
            b"".join(source.choices(alphabet, k=source.randrange(3)))
            for _ in range(source.randint(1, 20))
        ]
        strings = ["".join(source.choices("abé你\ufffd", k=source.randint(1, 3))) for _ in "12"]
        whole = b"".join(tokens).decode(errors="replace")
        cutter = StopStrings(strings)
        expected = cutter.push(whole) + cutter.finish()
        text = stream(tokens, strings)
        pieces = list(text)
        assert all(pieces)
        assert "".join(pieces) == text.result().text == expected
        assert text.result().stop_string == cutter.found


def test_a_stream_left_midway_can_be_finished_with_what_was_held_back(stream):
    text = stream([b"one", b" E", b"ND", b"two"], ["END"])
    assert [next(text), next(text)] == ["one", " "]
    assert text.result().text == "one "
    assert text.finish() == "E"
    assert text.finish() == ""
    result = text.result()
    assert (result.text, result.token_ids, result.finish_reason) == ("one E", [0, 1], None)
    assert list(text) == []


def test_cancelling_ends_the_text_with_what_was_held_back(scripted_steps):
    tokens = [b"one", b" E", b"ND", b"two"]
    generation = Generation(scripted_steps(range(4)), [1], StopConditions(4), device=CPU)
    text = TextStream(generation, ByteDecoder(tokens), ["END"])
    assert [next(text), next(text)] == ["one", " "]
    text.cancel()
    assert list(text) == ["E"]
    assert (text.result().text, text.result().finish_reason) == ("one E", "cancelled")


def test_a_special_token_that_is_not_shown_is_a_stop_string_all_the_same(stream):
    result = stream([b"sky", "<|im_start|>", b"user", b"!"], ["<|im_start|>"]).run()
    assert (result.text, result.stop_string) == ("sky", "<|im_start|>")
    assert (result.token_ids, result.finish_reason) == ([0, 1], "stop")


def test_a_stop_string_may_be_half_shown_and_half_hidden(stream):
    tokens = [b"The", b" END", "<|im_end|>", b"\n", b"more"]
    text = stream(tokens, ["END<|im_end|>\n"])
    assert list(text) == ["The", " "]
    assert (text.result().text, text.result().finish_reason) == ("The ", "stop")
    assert text.result().token_ids == [0, 1, 2, 3]
    broken_off = stream([b"The", b" END", "<|im_end|>", b"more"], ["END<|im_end|>\n"]).run()
    assert (broken_off.text, broken_off.stop_string) == ("The ENDmore", None)


def test_a_special_token_keeps_what_stands_around_it_apart(stream):
    result = stream([b"x", "<|im_start|>", b"y"], ["xy"]).run()
    assert (result.text, result.stop_string, result.finish_reason) == ("xy", None, "length")


def test_a_stop_string_equal_to_the_eos_token_is_the_reason(stream):
    eos = StopConditions.of(9, [1])
    result = stream([b"one", "<|im_end|>"], ["<|im_end|>"], eos).run()
    assert (result.text, result.stop_string) == ("one", "<|im_end|>")
    assert (result.token_ids, result.finish_reason) == ([0, 1], "stop")
    result = stream([b"one", "<|im_end|>"], ["<|im_end|>?"], eos).run()
    assert (result.text, result.stop_string, result.finish_reason) == ("one", None, "eos")


def test_wrong_stop_strings_are_refused_before_anything_is_computed(stream):
    with pytest.raises(GenerationError, match="stop_strings has ''"):
        stream([b"a"], [""])
