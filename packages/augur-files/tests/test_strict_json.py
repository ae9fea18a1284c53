"""JSON that every reader understands alike is parsed, and nothing else."""

import json

import pytest

from augur_files import StrictJSONError, parse_json


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": {"a": 1}, "b": [{"a": None}, True, 1e-6, "é\ud83d\ude42"]},
        [[]],
        10**4000,
        "text",
    ],
    ids=repr,
)
def test_what_is_json_comes_out_as_it_is(value: object) -> None:
    assert parse_json(json.dumps(value)) == json.loads(json.dumps(value))


def test_a_value_may_be_nested_64_deep_and_no_deeper() -> None:
    assert parse_json("[" * 64 + "]" * 64)
    with pytest.raises(StrictJSONError, match="nested more than 64 deep"):
        parse_json("[" * 65 + "1" + "]" * 65)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty, expected JSON"),
        (" \n", "is empty, expected JSON"),
        ("{", "is not JSON"),
        ("{'a': 1}", "is not JSON"),
        ("[1,]", "is not JSON"),
        ("{} {}", "is not JSON"),
        ('{"a": 1, "b": 2, "a": 1}', 'has the key "a" twice'),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', 'has the key "a" twice'),
        ("[NaN]", "holds NaN"),
        ('{"a": Infinity}', "holds Infinity"),
        ("-Infinity", "holds -Infinity"),
        ('{"rope_theta": 1e999}', "holds the number 1e999, which is beyond any float"),
        ("[-2." + "0" * 400 + "e308]", "beyond any float"),
        ("9" * 5000, "thousands of digits"),
        ("-" + "9" * 5000, "thousands of digits"),
        ("[" * 200_000, "nested more than 64 deep"),
        ('{"a":' * 200_000, "nested more than 64 deep"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_what_readers_do_not_agree_on_is_refused(text: str, reason: str) -> None:
    with pytest.raises(StrictJSONError, match=reason):
        parse_json(text)
