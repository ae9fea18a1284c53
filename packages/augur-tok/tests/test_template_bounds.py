"""What a chat template may take, what it may change, and what it can say."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest

from augur_tok import ChatTemplateError, Tokenizer
from augur_tok.added_tokens import AddedTokens
from augur_tok.chat_messages import chat_context
from augur_tok.chat_template import ChatTemplate
from augur_tok.control_marks import PRIVATE_USE

USER = [{"role": "user", "content": "Hi"}]
CONTEXT = chat_context(USER, True, None, {})
MOMENT = datetime(2024, 2, 29)
Opener = Callable[[str], Tokenizer]

ENDLESS = "{% for n in range(100000) %}" * 3 + "{% endfor %}" * 3


def of(source: str, special: Sequence[str] = ()) -> ChatTemplate:
    ids = {token: token_id for token_id, token in enumerate(special)}
    return ChatTemplate(source, AddedTokens(ids=ids, special=ids))


def test_a_marked_rendering_is_within_bounds_too(with_template: Opener) -> None:
    # Its loop begins in the second rendering alone, in which marks make the token longer.
    tokenizer = with_template("{% if eos_token | length > 10 %}" + ENDLESS + "{% endif %}a")
    assert tokenizer.apply_chat_template(USER) == "a"
    with pytest.raises(ChatTemplateError, match="more steps"):
        tokenizer.encode_chat(USER)


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 40_000,
        "{{ " + "(" * 5_000 + "a" + ")" * 5_000 + " }}",
        "{{ a" + " + a" * 5_000 + " }}",
        "{{ " + "not " * 5_000 + "a }}",
        "{% if a %}" * 100 + "a" + "{% endif %}" * 100,
        "{% for a in b %}" * 40 + "a" + "{% endfor %}" * 40,
        "{{ " + "9" * 5_000 + " }}",
        "{{ 'a' * 10 ** 10 if false }}{{ 10 ** 9 * 'a' }}",
    ],
    ids=["open", "nested", "chained", "not", "blocks", "loops", "digits", "constants"],
)
def test_compiling_is_within_bounds(source: str) -> None:
    with pytest.raises(ChatTemplateError, match="the checkpoint's chat template"):
        of(source).render(CONTEXT, MOMENT)


@pytest.mark.parametrize(("count", "length"), [(10, 10_000), (5_000, 20)])
def test_many_and_long_tokens_are_told_apart(count: int, length: int) -> None:
    special = [f"<|{n:06d}{'x' * (length - 10)}|>" for n in range(count)]
    source = special[-1] + "{{ messages[0].content }}" + special[0]
    pieces = of(source, special).render_pieces(CONTEXT, MOMENT)
    assert list(pieces) == [(special[-1], count - 1), ("Hi", None), (special[0], 0)]
    begun = of("{{ '" + special[1][:9] + "' }}", special)
    with pytest.raises(ChatTemplateError, match="puts a control token together from parts"):
        begun.render_pieces(CONTEXT, MOMENT)


@pytest.mark.parametrize(
    "change",
    [
        "dict.update(messages[0], {'content': 'EVIL'})",
        "dict.pop(messages[0], 'content')",
        "messages.reverse()",
        "messages[0].setdefault('role', 'x')",
        "messages|map('pop', 0)|list",
        "(messages|list).append(1)",
    ],
)
@pytest.mark.parametrize("call", ["apply_chat_template", "encode_chat"])
def test_no_template_changes_what_it_is_handed(
    with_template: Opener, change: str, call: str
) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    tokenizer = with_template("{% set x = " + change + " %}{{ messages[0].content }}")
    with pytest.raises(ChatTemplateError):
        getattr(tokenizer, call)(messages)
    assert messages == USER


@pytest.mark.parametrize("words", ["x\\nerror: all fine", "\\x1b[2Jx", "x\\r\\u2028y", "\\u202ex"])
def test_what_a_template_says_is_one_printable_line(words: str) -> None:
    for source in (
        "{{ raise_exception('" + words + "') }}",
        "{{ raise_exception(['" + words + "']) }}",
        "{{ messages['" + words + "'].x }}",
        "{% " + words.encode().decode("unicode_escape") + " %}",
    ):
        with pytest.raises(ChatTemplateError, match="chat template") as raised:
            of(source).render(CONTEXT, MOMENT)
        assert str(raised.value).isprintable()


def test_a_lone_surrogate_of_the_template_is_called_its_own() -> None:
    with pytest.raises(ChatTemplateError, match="chat template writes a lone surrogate"):
        of("{{ '\\ud800' }}").render(CONTEXT, MOMENT)


def test_a_lone_surrogate_is_placed_in_the_messages_own_text(tokenizer: Tokenizer) -> None:
    messages = [{"role": "user", "content": "a\udcffb"}]
    with pytest.raises(ChatTemplateError, match=r"^messages\[0\]\['content'\]: .* character 1\)"):
        tokenizer.encode_chat(messages)


def test_marks_are_found_in_any_chat_but_one_that_holds_all(tokenizer: Tokenizer) -> None:
    nearly = "".join(map(chr, PRIVATE_USE[2:]))
    assert tokenizer.encode_chat([{"role": "user", "content": nearly}])
    with pytest.raises(ChatTemplateError, match="nearly all of the 65,534 private-use"):
        tokenizer.encode_chat([{"role": "user", "content": nearly + chr(PRIVATE_USE[0])}])


def test_a_long_conversation_is_rendered_whole(tokenizer: Tokenizer) -> None:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": f"message {n}, é"} for n in range(1_000)]
    text = tokenizer.apply_chat_template(messages)
    assert text.count("<|im_start|>") == 1_002  # with the default system message and the prompt
    assert all(f"\nmessage {n}, é<|im_end|>\n" in text for n in range(1_000))
    assert tokenizer.decode(tokenizer.encode_chat(messages)) == text


# What templates in use do to every message, some of it growing with the square of their number.
BUSY = """\
{%- set ns = namespace(text='', last=-1) %}
{%- for message in messages[::-1] %}
    {%- if ns.last < 0 and message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- macro turn(message) %}<|im_start|>{{ message.role }} {{ message.content | trim }}{% endmacro %}
{%- for message in messages %}
    {%- set before = messages[:loop.index0] | selectattr('role', 'equalto', 'user') | list %}
    {%- set ns.text = ns.text + turn(message) ~ (before | length) + '%s' % loop.index %}
{%- endfor %}
{{- ns.text }}"""


def test_a_template_that_works_hard_on_a_long_conversation_is_rendered() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "word " * 20}] * 400
    text = of(BUSY).render(chat_context(messages, True, None, {}), MOMENT)
    turn = "<|im_start|>user " + ("word " * 20).strip()
    assert text == "".join(f"{turn}{n}{n + 1}" for n in range(400))


@pytest.mark.parametrize(
    "times", [200_000, pytest.param(12_800_000, marks=pytest.mark.gate)], ids=["1 MB", "64 MB"]
)
def test_a_long_message_is_rendered_and_cut_whole(times: int) -> None:
    content = "word " * times
    chat = chat_context([{"role": "user", "content": content}], True, None, {})
    template = of("<|im_start|>{{ messages[0].content }}", ["<|im_start|>"])
    pieces = template.render_pieces(chat, MOMENT)
    assert list(pieces) == [("<|im_start|>", 0), (content, None)]


def test_an_empty_template_is_said_to_be_empty(with_template: Opener) -> None:
    with pytest.raises(ChatTemplateError, match="default chat template is empty"):
        with_template(" \n").apply_chat_template(USER)
