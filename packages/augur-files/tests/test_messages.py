"""What a message quotes can neither break its line, nor steer the terminal, nor fill the screen."""

import pytest

from augur_files import one_line, shown


def test_a_line_of_text_stays_as_it_is() -> None:
    assert one_line("naïve 猫.json: has no tensor 'a'. Fetch it.") == (
        "naïve 猫.json: has no tensor 'a'. Fetch it."
    )


def test_what_cannot_be_printed_is_spelled_out() -> None:
    assert one_line("a\n\x1b[2J\u202e\ud800b") == r"a\n\x1b[2J\u202e\ud800b"


@pytest.mark.parametrize("filling", ["x", "\n", "\U000e0001"])
def test_of_a_long_message_the_beginning_and_the_end_stay(filling: str) -> None:
    line = one_line("model.safetensors: has " + filling * 10**6 + " Fetch it again.")
    assert len(line) <= 2000
    assert line.isprintable()
    assert line.startswith("model.safetensors: has ")
    assert line.endswith(" Fetch it again.")


class Nameless:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\n", r"'a\n'"),
        (10**5000, "a int"),
        (Nameless(), "a Nameless"),
        ("x" * 300, "'" + "x" * 199 + "..."),
    ],
    ids=["text", "long number", "no repr", "long text"],
)
def test_any_value_can_be_shown(value: object, expected: str) -> None:
    assert shown(value) == expected
