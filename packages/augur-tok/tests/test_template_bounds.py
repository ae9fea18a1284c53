"""A chat template is somebody's program: what it may take, and what it cannot reach."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from augur_tok import ChatTemplateError, Tokenizer
from augur_tok.template_budget import SECONDS, Budget

USER = [{"role": "user", "content": "Hi"}]
Opener = Callable[[str], Tokenizer]


def times(count: int, body: str) -> str:
    return "{% for n in range(" + str(count) + ") %}" + body + "{% endfor %}"


DOUBLED = "{% set ns = namespace(x=START) %}" + times(60, "{% set ns.x = GROWN %}") + "{{ ns.x }}"


def doubled(start: str, grown: str) -> str:
    return DOUBLED.replace("START", start).replace("GROWN", grown)


def many(nested: str) -> str:
    return times(100000, times(100000, times(100000, nested)))


LONG = "{% set s = 'ab' * 400000 %}"

ATTACKS = {
    # without end
    "nested loops": many(""),
    "nested loops that write": many("a"),
    "loops whose condition never holds": times(100000, "{% for n in range(100000) if 0 %}"
    "{% endfor %}{% for n in range(100000) if (range(100000) | list) == 3 %}{% endfor %}"),
    "a loop over a product": times(9, "{% for n in [1] * 10 ** 9 %}{% endfor %}"),
    "a macro that calls itself twice": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}"
    "{% endif %}{% endmacro %}{{ f(60) }}",
    "a macro that calls itself for ever": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "a block that writes itself twice": "{% block b %}{{ self.b() }}{{ self.b() }}{% endblock %}",
    "a recursive loop": "{% for n in range(9999) recursive %}{{ loop(range(9999)) }}{% endfor %}",
    "loops in the messages": many("{{ messages | length }}"),
    # much out of little
    "a text times a number": "{{ 'a' * 10 ** 10 }}",
    "a number times a text": "{{ 10 ** 10 * 'a' }}",
    "a list times a number": "{{ [1] * 10 ** 10 }}",
    "a doubled text": doubled("'ab'", "ns.x + ns.x"),
    "a doubled text by ~": doubled("'ab'", "ns.x ~ ns.x"),
    "a doubled list": doubled("[1]", "ns.x + ns.x"),
    "a list in a list twice": doubled("[1]", "[ns.x, ns.x]"),
    "a tuple in a tuple twice": doubled("(1,)", "(ns.x, ns.x)"),
    "a dict in a dict twice": doubled("{}", "{1: ns.x, 2: ns.x}"),
    "a dict in a dict() twice": doubled("{}", "dict(a=ns.x, b=ns.x)"),
    "a text joined with itself": doubled("'ab'", "[ns.x, ns.x] | join"),
    "a text joined by itself": doubled("'ab'", "ns.x.join(['ab', 'ab', ns.x])"),
    "a text replaced by itself": doubled("'ab'", "ns.x | replace('a', ns.x)"),
    "a text replaced by itself as a method": doubled("'ab'", "ns.x.replace('a', ns.x)"),
    "a text formatted with itself": doubled("'ab'", "'{0}{0}'.format(ns.x)"),
    "a text put into itself by %": doubled("'ab'", "'%s%s' % (ns.x, ns.x)"),
    "a text filtered by format": doubled("'ab'", "'%s%s' | format(ns.x, ns.x)"),
    "a text indented by itself": doubled("'a\\nb'", "ns.x | indent(ns.x)"),
    "a doubled macro": "{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}" + doubled("'ab'", "f(ns.x)"),
    "a macro's doubled arguments": "{% macro f() %}{% set ns.x = varargs %}{% endmacro %}"
    "{% set ns = namespace(x=(1,)) %}" + times(60, "{{ f(ns.x, ns.x) }}") + "{{ ns.x }}",
    "a doubled block": "{% set ns = namespace(x='ab') %}"
    + times(60, "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"),
    "a doubled filter block": "{% set ns = namespace(x='ab') %}"
    + times(60, "{% set y %}{% filter upper %}{{ ns.x }}{{ ns.x }}{% endfilter %}{% endset %}"
    "{% set ns.x = y %}"),
    "much literal text": times(100000, "a" * 10_000),
    "many slices": LONG + "{% set ns = namespace(x=[]) %}"
    + times(5000, "{% set ns.x = ns.x + [s[1:]] %}"),
    "many slices in macros": LONG + "{% macro f(n) %}{% set t = s[n:] %}{{ f(n + 1) }}{{ t }}"
    "{% endmacro %}" + times(1000, "{{ f(0) }}"),
    "many lists of characters": LONG + times(1000, "{% set t = s | list %}{{ t | length }}"),
    "many split texts": LONG + times(1000, "{% set t = s.split('b') %}{{ t | length }}"),
    "wide fields": "{{ '{:10000000000}'.format(1) }}",
    "wide fields whose width is a value": "{{ '{:{}}'.format(1, '1000000000') }}",
    "wide fields by %": "{{ '%1000000000d' % 1 }}",
    "wide fields by % whose width is a value": "{{ '%*d' % (1000000000, 1) }}",
    "wide indents": "{{ 'a\\nb' | indent(1000000000) }}",
    "wide indents in JSON": "{{ [1] | tojson(indent=1000000000) }}",
    "wide separators in JSON": LONG + "{{ (range(99999) | list) | tojson(separators=(s, s)) }}",
    "a long date": "{{ strftime_now('%c' * 1000000) }}",
    # large numbers
    "a tower of powers": "{{ 10 ** (10 ** 10) }}",
    "squares of squares": doubled("99", "ns.x * ns.x"),
    "places beyond counting": "{{ 1.5 | round(1000000000, 'ceil') }}",
    # slow
    "lists added up": "{{ ([[1] * 1000] * 1000) | sum(start=[]) }}",
    "comparison of doubled lists": doubled("[1]", "[ns.x, ns.x]") + "{{ ns.x == ns.x }}",
    "a backwards search": LONG + times(50000, "{{ s.rfind('b' + s[:300000]) }}"),
    "searches": LONG + times(100000, "{{ s.count('ba' * 1000 + 'c') }}"),
    "a text stripped of a long one": LONG + "{{ (s + 'c' * 9).strip('é' * 100000 + s) }}",
    # what nobody has looked at is not there
    "center": "{{ 'a' | center(10 ** 9) }}",
    "center as a method": "{{ 'a'.center(10 ** 9) }}",
    "zfill": "{{ 'a'.zfill(10 ** 9) }}",
    "expandtabs": "{{ '\\t'.expandtabs(10 ** 9) }}",
    "translate": "{{ 'a'.translate({97: 'b'}) }}",
    "to_bytes": "{{ (1).to_bytes(10 ** 9, 'big') }}",
    "lipsum": "{{ lipsum(n=10 ** 9) }}",
    "batch": "{{ [1] | batch(10 ** 9, 'a') | list }}",
    "slice": "{{ [1] | slice(10 ** 9) | list }}",
    "wordwrap": "{{ 'a b' | wordwrap(1) }}",
    "pprint": "{{ messages | pprint }}",
    "a long range": times(10**9, ""),
}  # fmt: skip

ESCAPES = {
    "a class": "{{ ''.__class__.__mro__ }}",
    "a class by subscript": "{{ ''['__class__'].__mro__ }}",
    "a class by filter": "{{ (''|attr('__class__')).__mro__ }}",
    "a class by a mapped attribute": "{{ (['']|map(attribute='__class__')|list)[0].__mro__ }}",
    "a class by format": "{{ '{0.__class__.__mro__}'.format('') }}",
    "a class by a format taken elsewhere": "{{ ('{0.__class__.__mro__}'|attr('format'))('') }}",
    "a class by format_map": "{{ '{a.__class__}'.format_map({'a': ''}) }}",
    "globals of cycler": "{{ cycler.__init__.__globals__.os }}",
    "globals of joiner": "{{ joiner.__init__.__globals__.os }}",
    "globals of a namespace": "{{ namespace.__init__.__globals__.os }}",
    "globals of lipsum": "{{ lipsum.__globals__.os }}",
    "globals of the clock": "{{ strftime_now.__globals__.sys }}",
    "globals of a macro": "{% macro f() %}{% endmacro %}{{ f.__init__.__globals__ }}",
    "the environment by self": "{{ self._TemplateReference__context.environment }}",
    "the environment by the loop": "{% for n in [1] %}{{ loop._undefined.x.y }}{% endfor %}",
    "a frame of a generator": "{{ (messages | map('upper')).gi_frame.f_globals }}",
    "the budget": "{{ messages.counted }}{{ raise_exception.__globals__.x }}",
    "another template": "{% include '/etc/passwd' %}",
    "an import": "{% import 'os' as os %}{{ os }}",
}


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_template_that_takes_too_much_ends_with_an_error(
    with_template: Opener, attack: str
) -> None:
    with pytest.raises(ChatTemplateError, match="chat template") as raised:
        with_template(ATTACKS[attack]).apply_chat_template(USER)
    assert "MemoryError" not in str(raised.value)
    assert len(str(raised.value)) < 2_000


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_template_reaches_nothing_but_what_it_is_given(
    with_template: Opener, escape: str
) -> None:
    with pytest.raises(ChatTemplateError, match="chat template"):
        with_template(ESCAPES[escape]).apply_chat_template(USER)


@pytest.mark.usefixtures("bounded")
def test_a_marked_rendering_is_within_bounds_too(with_template: Opener) -> None:
    # Its loop begins in the second rendering alone, in which marks make the token longer.
    begins = "{% if eos_token | length > 10 %}" + many("") + "{% endif %}a"
    tokenizer = with_template(begins)
    assert tokenizer.apply_chat_template(USER) == "a"
    with pytest.raises(ChatTemplateError, match="more steps"):
        tokenizer.encode_chat(USER)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 40_000,
        "{{ " + "(" * 5_000 + "a" + ")" * 5_000 + " }}",
        "{{ a" + " + a" * 5_000 + " }}",
        "{{ " + "not " * 5_000 + "a }}",
        "{% if a %}" * 100 + "a" + "{% endif %}" * 100,
        "{{ " + "9" * 5_000 + " }}",
        "{{ 'a' * 10 ** 10 if false }}{{ 10 ** 9 * 'a' }}",
    ],
    ids=["open", "nested", "chained", "not", "blocks", "digits", "constants"],
)
def test_compiling_is_within_bounds(with_template: Opener, source: str) -> None:
    with pytest.raises(ChatTemplateError, match="chat template"):
        with_template(source).apply_chat_template(USER)


def test_ctrl_c_ends_a_rendering(with_template: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = with_template(many(""))
    monkeypatch.setattr(Budget, "step", lambda *_: signal.raise_signal(signal.SIGINT))
    # A shell's background job starts with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            tokenizer.apply_chat_template(USER)
    finally:
        signal.signal(signal.SIGINT, before)


def test_time_is_the_last_bound() -> None:
    now_s = [0.0]
    budget = Budget(0, clock=lambda: now_s[0])
    now_s[0] = SECONDS
    budget.step()
    now_s[0] = SECONDS + 1
    with pytest.raises(ChatTemplateError, match="longer than 20 s"):
        budget.step()


@pytest.mark.usefixtures("bounded")
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


@pytest.mark.usefixtures("bounded")
def test_a_template_that_works_hard_on_a_long_conversation_is_rendered(
    with_template: Opener,
) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "word " * 20}] * 400
    text = with_template(BUSY).apply_chat_template(messages)
    turn = "<|im_start|>user " + ("word " * 20).strip()
    assert text == "".join(f"{turn}{n}{n + 1}" for n in range(400))


@pytest.mark.usefixtures("bounded")
def test_a_message_of_a_megabyte_is_rendered(tokenizer: Tokenizer) -> None:
    content = "word " * 200_000
    assert content in tokenizer.apply_chat_template([{"role": "user", "content": content}])


def test_an_empty_template_is_said_to_be_empty(with_template: Opener) -> None:
    tokenizer = with_template(" \n")
    with pytest.raises(ChatTemplateError, match="default chat template is empty"):
        tokenizer.apply_chat_template(USER)
