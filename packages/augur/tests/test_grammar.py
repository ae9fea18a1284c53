"""JSON schemas put on a model that would never say JSON."""

import json
import sys

import pytest

import augur

pytest.importorskip("llguidance")
from augur.grammar import json_schema

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.gate) for seed in range(2, 8))]
)
def test_a_random_model_answers_in_json_of_the_schema(llm: augur.LLM, seed: int):
    constraint = json_schema(llm, PERSON)
    drawn: augur.Options = {"temperature": 1.0, "seed": seed, "max_new_tokens": 200}
    answer = llm.chat("Who?", constraint=constraint, logprobs=0, frequency_penalty=0.1, **drawn)
    assert answer.finish_reason == "eos"
    person = json.loads(answer.text)
    assert person.keys() <= PERSON["properties"].keys() >= {"name", "age"}
    assert len(person["name"]) <= 6
    assert 0 <= person["age"] <= 120
    assert set(person.get("tags", [])) <= {"a", "b"}


def test_two_answers_under_one_constraint_do_not_meet(llm: augur.LLM):
    constraint = json_schema(llm, json.dumps(PERSON))
    drawn: augur.Options = {"temperature": 1.0, "seed": 1, "max_new_tokens": 200}
    alone = llm.chat("Who?", constraint=constraint, **drawn).text
    both = llm.batch(["Who?", "Who?"], constraint=constraint, **drawn)
    assert both[0].text == alone
    assert json.loads(both[1].text) != json.loads(alone)


def test_a_schema_that_is_none_is_refused(llm: augur.LLM):
    for schema in ("{", {"type": "colour"}, {"type": "string", "pattern": "("}):
        with pytest.raises(augur.OptionError, match="constraint: the schema is not taken"):
            json_schema(llm, schema)


def test_without_llguidance_it_is_named(llm: augur.LLM, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules["augur.grammar"], "llguidance", None)
    with pytest.raises(augur.OptionError, match=r"augur-qwen\[grammar\]"):
        json_schema(llm, PERSON)
