"""Stop strings cut a text exactly, however it comes in pieces."""

import random

import pytest

from augur_gen import GenerationError, StopStrings


def feed(strings: list[str], pieces: list[str]) -> list[str]:
    """What each piece releases, and what the end does."""
    stop_strings = StopStrings(strings)
    return [*(stop_strings.push(piece) for piece in pieces), stop_strings.finish()]


def cut_by_definition(strings: list[str], text: str) -> tuple[str, str | None]:
    """The text before the match that ends first, of these the one that begins first."""
    for end in range(len(text) + 1):
        for start in range(end):
            if text[start:end] in strings:
                return text[:start], text[start:end]
    return text, None


def certain_by_definition(strings: list[str], text: str) -> str:
    """What no continuation can take back: text before whatever may still become a match."""
    for start in range(len(text)):
        if any(string.startswith(text[start:]) for string in strings):
            return text[:start]
    return text


def in_pieces(text: str, source: random.Random) -> list[str]:
    cuts = sorted(source.choices(range(len(text) + 1), k=source.randrange(8)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def test_a_stop_string_over_several_pieces_is_cut_exactly():
    pieces = ["alpha be", "ta", " ", "gam", "ma delta"]
    assert feed(["beta gamma"], pieces) == ["alpha ", "", "", "", "", ""]


def test_a_partial_match_that_comes_to_nothing_is_released_when_that_is_known():
    assert feed(["beta gamma"], ["beta ", "gam", "e over"]) == ["", "", "beta game over", ""]


def test_a_partial_match_that_the_text_ends_with_is_released_at_the_end():
    assert feed(["beta gamma"], ["alpha beta", " gam"]) == ["alpha ", "", "beta gam"]


def test_only_what_may_be_the_beginning_of_a_stop_string_is_held_back():
    assert feed(["\n\n", "END"], ["one", "\n", "two", " E", "N", "Emy"]) == [
        *["one", "", "\ntwo", " ", "", "ENEmy"],
        "",
    ]


def test_a_match_may_begin_inside_a_partial_match_that_failed():
    assert feed(["aab"], ["a", "a", "a", "b"]) == ["", "", "a", "", ""]


@pytest.mark.parametrize(
    ("strings", "text", "expected"),
    [
        (["abc", "b"], "xabc", ("xa", "b")),
        (["bc", "abc"], "xabc", ("x", "abc")),
        (["abc", "bc"], "xabc", ("x", "abc")),
        (["abcd", "bc"], "abcd", ("a", "bc")),
        (["ab", "abc"], "abc", ("", "ab")),
        (["aa"], "aaa", ("", "aa")),
        (["汉字", "字"], "写汉字。", ("写", "汉字")),
        (["👍🏽"], "ok 👍🏽 ok", ("ok ", "👍🏽")),
    ],
)
def test_the_match_that_ends_first_counts_and_then_the_one_that_begins_first(
    strings, text, expected
):
    for pieces in ([text], list(text)):
        stop_strings = StopStrings(strings)
        released = "".join(map(stop_strings.push, pieces)) + stop_strings.finish()
        assert (released, stop_strings.found) == expected
    assert cut_by_definition(strings, text) == expected


def test_random_texts_in_random_pieces_are_cut_where_the_definition_says():
    source = random.Random(0)
    found = 0
    for _ in range(3000):
        alphabet = "ab" if source.random() < 0.7 else "abc\n"
        strings = [
            "".join(source.choices(alphabet, k=source.randint(1, 6)))
            for _ in range(source.randint(1, 4))
        ]
        text = "".join(source.choices(alphabet, k=source.randrange(30)))
        expected, match = cut_by_definition(strings, text)
        stop_strings = StopStrings(strings)
        released, pushed = "", ""
        for piece in in_pieces(text, source):
            released += stop_strings.push(piece)
            pushed += piece
            if stop_strings.found is None:
                # Nothing is held back that could have been released.
                assert released == certain_by_definition(strings, pushed)
        released += stop_strings.finish()
        assert (released, stop_strings.found) == (expected, match)
        found += match is not None
    assert 1000 < found < 2900


def test_after_a_match_nothing_more_is_released():
    stop_strings = StopStrings(["."])
    assert [stop_strings.push("One. Two"), stop_strings.push(" three"), stop_strings.finish()] == [
        *["One", "", ""]
    ]
    assert stop_strings.found == "."


def test_without_stop_strings_everything_passes_at_once():
    assert feed([], ["a", "", "b"]) == ["a", "", "b", ""]


@pytest.mark.parametrize("strings", [[""], ["a", ""], [b"a"], [None], [5]], ids=repr)
def test_what_is_no_string_or_empty_is_refused(strings):
    with pytest.raises(GenerationError, match=r"stop_strings has .* at least one character"):
        StopStrings(strings)


@pytest.mark.parametrize("string", ["caf\udce9", "\ud83d"], ids=ascii)
def test_what_no_text_can_hold_is_refused(string):
    with pytest.raises(GenerationError, match=r"stop_strings has .*lone surrogate"):
        StopStrings(["a", string])


def test_a_single_string_is_not_taken_for_a_list_of_its_characters():
    with pytest.raises(GenerationError, match=r"stop_strings is 'END', expected a list.*\['END'\]"):
        StopStrings("END")


def test_a_finished_text_takes_no_more():
    stop_strings = StopStrings(["a"])
    stop_strings.finish()
    with pytest.raises(GenerationError, match="finished"):
        stop_strings.push("b")


def feed_marked(strings: list[str], pieces: list[str]) -> tuple[list[str], str | None]:
    """As `feed`; what stands between angle brackets, those included, is hidden."""
    stop_strings = StopStrings(strings)
    released = [stop_strings.push(piece, hidden=piece.startswith("<")) for piece in pieces]
    return [*released, stop_strings.finish()], stop_strings.found


@pytest.mark.parametrize(
    ("strings", "pieces", "released", "found"),
    [
        (["<a>"], ["x", "<a>", "y"], "x", "<a>"),
        (["x<a>y"], ["wx", "<a>", "yz"], "w", "x<a>y"),
        (["<a><b>"], ["x", "<a>", "y", "<a>", "<b>", "z"], "xy", "<a><b>"),
        (["x<a"], ["wx", "<a>", "y"], "w", "x<a"),
        (["a>y"], ["x", "<a>", "yz"], "x", "a>y"),
        (["xy"], ["x", "<a>", "y"], "xy", None),
        (["<a>z"], ["x", "<a>", "y"], "xy", None),
        (["xy"], ["<a>", "x", "y", "<a>"], "", "xy"),
        ([], ["x", "<a>", "y"], "xy", None),
    ],
)
def test_hidden_text_counts_and_is_not_released(strings, pieces, released, found):
    pushed, met = feed_marked(strings, pieces)
    assert ("".join(pushed), met) == (released, found)


def test_random_hidden_pieces_are_cut_where_the_definition_says():
    source = random.Random(1)
    hits = 0
    for _ in range(2000):
        pieces = source.choices(["a", "b", "<", "<a", "ab", "ba", "<b"], k=source.randrange(12))
        strings = ["".join(source.choices("ab<", k=source.randint(1, 4))) for _ in "12"]
        shown = "".join(("0" if piece.startswith("<") else "1") * len(piece) for piece in pieces)
        expected, match = cut_by_definition(strings, "".join(pieces))
        released, found = feed_marked(strings, pieces)
        assert found == match
        visible = (c for c, s in zip(expected, shown, strict=False) if s == "1")
        assert "".join(released) == "".join(visible)
        hits += match is not None
    assert 300 < hits < 1900
