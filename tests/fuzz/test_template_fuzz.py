"""Whatever a chat template says and whatever the messages are: a text, or an error of ours."""

import random
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augur_proof.tiny_checkpoint import CHAT_TEMPLATE
from augur_tok import TokenizerError
from augur_tok.added_tokens import AddedTokens
from augur_tok.chat_messages import chat_context
from augur_tok.chat_template import ChatTemplate
from fuzz_bounds import MOMENT, bounded
from reader_bounds import fuzzing

pytestmark = pytest.mark.gate

SPECIAL = {"<|im_start|>": 0, "<|im_end|>": 1}
ADDED = AddedTokens(
    ids={**SPECIAL, "<tool_call>": 2, "</think>": 3},
    special=SPECIAL,
    named={"eos_token": "<|im_end|>"},
)

# A template with most of what templates do, in the manner of Qwen3's.
LONG_TEMPLATE = """\
{%- macro content_of(content) %}
    {%- if content is string %}{{- content }}{%- else %}
        {%- for item in content %}{{- item.text | default('<|image|>') }}{%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- set ns = namespace(last=messages | length - 1, text='') %}
{%- for message in messages[::-1] %}
    {%- if message.role == 'user' and not content_of(message.content).startswith('<tool_') %}
        {%- set ns.last = messages | length - loop.index %}{%- break %}
    {%- endif %}
{%- endfor %}
{%- if tools %}
    {{- '<|im_start|>system\\n' ~ (tools | map('tojson') | join('\\n')) + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = content_of(message.content) | trim %}
    {%- if '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>%s\\n' % message.role + content }}
    {%- for call in message.tool_calls or [] %}
        {{- '{"name": "{}"}'.replace('{}', call.name) + (call.arguments | tojson(indent=2)) }}
    {%- endfor %}
    {%- for key, value in message.items() %}{{- key | upper ~ value | string }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' * 2 ** 0 }}{%- endif %}"""

# What a mutation puts in: what grows, what loops, what asks for Python's internals, what breaks.
PIECES = [
    "{% for n in range(99999) %}", "{% endfor %}", "{% for m in messages recursive %}",
    "{{ loop(messages) }}", "{% if messages %}", "{% else %}", "{% endif %}", "{{", "}}", "{%",
    "%}", " * 10 ** 9", " ** 9", " + messages", " ~ messages", "[ns.text, ns.text]",
    "{% set ns.text = ns.text ~ ns.text %}", "{% set ns.text = [ns.text, ns.text] %}",
    "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}", "{{ f(1) }}", " | join", " | list",
    " | map('upper')", " | tojson(indent=9)", " | center(10 ** 9)", " | replace('', 'aa')", "'a'",
    " | indent(999999)", ".format(1)", "'{:99999}'", "'%99999d' % 1", ".__class__", "[::-1]",
    " | attr('__class__')", "['__init__']", "cycler", "namespace(", "lipsum(9)", "(", ")", "[",
    "strftime_now('%Y')", "{% generation %}", "{% endgeneration %}", "{% break %}", "\ud800", "\0",
    "{% include 'x' %}", "{{ self }}", "{{ varargs }}", "{% raw %}", "raise_exception('no')", "é",
]  # fmt: skip


def mutated(source: str, seed: int) -> str:
    """The template with a few pieces dropped, doubled, moved or put in."""
    rng = random.Random(seed)
    parts = re.findall(r"\w+|\s+|.", source)
    for _ in range(rng.randint(0, 6)):
        place = rng.randrange(len(parts) + 1)
        change: Callable[[], Any] = rng.choice(
            [
                partial(parts.__delitem__, slice(place, place + rng.randint(1, 5))),
                partial(parts.insert, place, rng.choice(PIECES)),
                partial(parts.insert, place, "".join(parts[place : place + rng.randint(1, 40)])),
                partial(parts.insert, place, rng.choice(parts or [" "])),
            ]
        )
        change()
    return "".join(parts)


any_text = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["<|im_end|>", "</think>", "user", "text", "\ud800", "\0", "x" * 5_000]
)
no_repr = st.just("").map(lambda _: 10**5_000)
any_value = st.recursive(
    any_text | no_repr | st.none() | st.booleans() | st.integers() | st.floats()
    | st.binary(max_size=3) | st.just(object()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3)
    | st.dictionaries(st.integers() | st.none(), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip
good_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool"]), "content": any_text},
    optional={"tool_calls": any_value, "extra": any_value},
)
odd_message = st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "thinking", "x"]), any_value
)
any_messages = st.lists(good_message, min_size=1, max_size=4) | st.one_of(
    st.lists(good_message | odd_message | any_value, max_size=3), any_value
)


@fuzzing
@given(
    source=st.sampled_from([CHAT_TEMPLATE, LONG_TEMPLATE]),
    seed=st.integers(0, 2**64),
    messages=any_messages,
    tools=st.none() | st.lists(st.dictionaries(any_text, any_value)) | any_value,
    mood=any_value,
)
def test_a_mutated_template_on_any_messages_gives_a_text_or_our_error(
    source: str, seed: int, messages: Any, tools: Any, mood: Any
) -> None:
    refusal = ""
    with bounded():
        try:
            template = ChatTemplate(mutated(source, seed), ADDED)
            context = chat_context(messages, True, tools, {"mood": mood})
            assert isinstance(template.render(context, MOMENT), str)
            assert all(text for text, _ in template.render_pieces(context, MOMENT))
        except TokenizerError as error:
            refusal = str(error)
    assert "ended its process" not in refusal


def test_the_templates_themselves_render() -> None:
    # Else what is mutated would be refused for reasons of its own.
    messages = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": "x</think>\ny",
            "tool_calls": [{"name": "f", "arguments": 1}],
        },
    ]
    context = chat_context(messages, True, [{"name": "f"}], {})
    for source in (CHAT_TEMPLATE, LONG_TEMPLATE):
        template = ChatTemplate(source, ADDED)
        text = template.render(context, MOMENT)
        assert text.startswith("<|im_start|>")
        assert text.endswith("<|im_start|>assistant\n")
        assert "".join(piece for piece, _ in template.render_pieces(context, MOMENT)) == text


def test_mutations_reach_both_ends() -> None:
    """Some of them still render, most do not: neither kind is left out."""
    context = chat_context([{"role": "user", "content": "Hi"}], True, None, {})
    outcomes = set()
    for seed in range(30):
        template = ChatTemplate(mutated(LONG_TEMPLATE, seed), ADDED)
        try:
            outcomes.add(type(template.render(context, MOMENT)))
        except TokenizerError as error:
            outcomes.add(type(error))
    assert len(outcomes) == 2
