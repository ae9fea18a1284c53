"""Templates that take without end, make much of little, or reach for what is not theirs."""

from collections.abc import Callable
from datetime import datetime

import pytest

from augur_tok import ChatTemplateError, Tokenizer
from augur_tok.chat_template import ChatTemplate, chat_context
from augur_tok.control_marks import PRIVATE_USE

USER = [{"role": "user", "content": "Hi"}]
Opener = Callable[[str], Tokenizer]
CONTEXT = chat_context(USER, True, None, {}, datetime(2024, 2, 29))


def times(count: int, body: str) -> str:
    return "{% for n in range(" + str(count) + ") %}" + body + "{% endfor %}"


def many(nested: str) -> str:
    return times(100000, times(100000, times(100000, nested)))


KEPT = "{% set ns = namespace(x=0) %}"
WIDE = "{% set a = '😀' * 900000 %}"
MARKED = WIDE + "{% set m = a|safe %}"
SHORT = "{% set a = 'a' * 2499 %}{% set b = 'a' * 1200 ~ 'baa' %}"


def kept(value: str, count: int = 100000) -> str:
    return KEPT + times(count, "{% set ns.x = [ns.x, " + value + "] %}")


def kept_macros(count: int) -> str:
    made = "".join(f"{{% macro f{n}() %}}{{% endmacro %}}" for n in range(count))
    held = ", ".join(f"f{n}=f{n}" for n in range(count))
    return KEPT + times(10000, made + "{% set ns.x = namespace(x=ns.x, " + held + ") %}")


LONG = "{% set a = 'x' * 900000 %}"
BOTH = LONG + "{% set b = 'x' * 900000 %}"
SHARED = "{% set w = [a] * 900 %}{% set v = [w] * 900 %}"
DEEP = "{% set ns = namespace(x=[1]) %}" + times(5000, "{% set ns.x = [ns.x] %}")

# What runs inside a filter or a test.
LAZY = {
    "items whose hashes are the same": "{{ range(0,(2**61-1)*60000,2**61-1)|unique|list|length }}",
    "a test in a filter": "{% set L = range(100000)|list %}"
    "{{ range(100000,200000)|select('in', L)|list|length }}",
    "a test in a filter by attribute": "{% set L = range(100000)|list %}{% set d = [{'k': -1}] %}"
    "{{ (d * 100000)|selectattr('k','in',L)|list|length }}",
    "a rejecting test": "{% set L = range(100000)|list %}{{ (L+L+L)|reject('in', L)|list }}",
    "a filter mapped over long texts": LONG
    + "{{ ([a] * 100000)|map('upper')|map('length')|list }}",
    "filters mapped over filters": "{% set L = range(9000)|list %}"
    "{{ ([L] * 9000)|map('map','string')|list|length }}",
    "lists mapped over a list": "{% set L = range(9000)|list %}{{ ([L] * 9000)|map('list')|list }}",
    "a mapped path": "{{ [messages]|map(attribute='a.' * 100000)|list }}",
}
# Numbers.
NUMBERS = {
    "places before the point": "{{ 5|round(-30000000) }}",
    "a division of long numbers": "{{ ('f'*900000)|int(base=16) // ('e'*450000)|int(base=16) }}",
    "a long literal": "{{ " + "9" * 4000 + " }}",
    "a long number from digits": "{{ ('9' * 4000)|int }}",
    "a long number from few digits": "{{ ('9' * 90)|int }}",
    "a long number from a float": "{{ 1e300|int }}",
    "a float of many digits": "{{ ('1' * 900000)|float }}",
    "a product": "{{ (2 ** 60) * (2 ** 60) }}",
    "a sum": "{{ 2 ** 63 + 2 ** 63 }}",
    "a negative power": "{{ (0 - 8) ** 0.5 }}",
    "a remainder": "{{ (2 ** 64) % 7 }}",
    "a format in a test for odd numbers": "{{ '%999999999d' is odd }}",
    "a format in a test for even numbers": "{{ '%999999999d' is even }}",
    "a format in a test for divisors": "{{ '%999999999d' is divisibleby(3) }}",
    "digits of large floats": "{{ (('%d' * 100000) % ((1e308,) * 100000))|length }}",
}
# Comparisons, searches, keys.
COMPARISONS = {
    "equal lists": "{% set a = [1] * 300000 %}{% set b = [1] * 300000 %}"
    + times(7000, "{% if a == b %}{% endif %}"),
    "equal texts": BOTH + times(100000, "{% if a == b %}{% endif %}"),
    "ordered texts": BOTH + times(100000, "{{ 'n' if a < b }}"),
    "a chain": BOTH + times(100000, "{{ 'n' if 'a' < a <= b }}"),
    "an item in a list": "{% set a = range(100000)|list %}"
    + times(100000, "{% if -1 not in a %}{% endif %}"),
    "a text in a text": LONG + times(100000, "{% if 'y' in a %}{% endif %}"),
    "a number in a range": times(100000, "{% if 0.5 in range(100000) %}{% endif %}"),
    "equal shared lists": LONG + SHARED + "{% set u = [w] * 900 %}{{ 'n' if u == v }}",
    "a tuple for a key": "{% set t = (1,) * 100000 %}" + times(100000, "{{ {}[t] }}"),
    "a tuple for a key in a literal": "{% set t = (1,) * 100000 %}{{ {t: 1}|length }}",
    "a long text for a key": LONG + "{% set d = {a: 1} %}{% set b = 'x' * 900000 %}"
    + times(100000, "{{ d[b] }}"),
    "a test for equality": BOTH
    + times(100000, "{{ 'n' if a is eq(b) }}"),
    "short texts in short texts": SHORT + times(2000, "{{ 'n' if b in a }}"),
    "short texts cut by short texts": SHORT + times(2000, "{{ 'n' if a.split(b) }}"),
    "dates in long patterns": times(100000, "{% set d = strftime_now('" + "%c" * 100 + "') %}"),
    "a long loop with a long body": times(100000, times(100000, "{{ messages[0].a }}" * 2400)),
}  # fmt: skip
# Memory.
MEMORY = {
    "autoescape": "{% autoescape true %}{% set a=('<'*900000)~'😀' %}" + "{{a}}" * 16
    + "{% endautoescape %}",
    "escape": "{% set a=('<'*900000)~'😀' %}" + "{{ a|escape }}" * 16,
    "e": "{% set a=('<'*900000)~'😀' %}" + "{{ a|e }}" * 16,
    "marked text joined": "{% set a=('<'*900000)~'😀' %}{{ (''|safe) + a }}",
    "marked text formatted": "{% set a = '<' * 900000 %}{{ ('%s' * 9)|safe % a }}",
    "a printed list": LONG + "{{ range(4000)|map(attribute='x', default=a)|list }}",
    "a printed list joined": LONG + "{{ range(4000)|map(attribute='x', default=a)|list ~ '' }}",
    "a printed list as text": LONG + "{{ ([a] * 4000)|string|length }}",
    "a printed list in a format": LONG + "{{ '%s' % [[a] * 4000] }}{{ '{}'.format([a] * 4000) }}",
    "a printed list as an error": LONG + "{{ raise_exception([a] * 4000) }}",
    "a printed dict": LONG + "{{ {'a': [a] * 4000} }}",
    "a printed list in upper case": LONG + "{{ ([a] * 4000)|upper|length }}",
    "a list in JSON": LONG + "{{ ([a] * 4000)|tojson|length }}",
    "a joined list": LONG + "{{ ([a] * 4000)|join|length }}",
    "shared lists": LONG + SHARED + "{{ v }}",
    "shared lists in JSON": LONG + SHARED + "{{ v|tojson }}",
    "deep lists": DEEP + "{{ ns.x }}",
    "deep lists in JSON": DEEP + "{{ ns.x|tojson }}",
    "a changed dict": "{% set z=dict() %}{% set w=[z]*900 %}{% set v=[w]*900 %}"
    "{{ dict.update(z,k='x'*900000) }}{{ v }}",
    "a dict of keys": "{{ dict.fromkeys(range(100000))|length }}",
    "many dicts": times(100000, "{% set d = dict(a=1) %}" * 9),
    "control characters in JSON": "{% set a = '\\0' * 900000 %}" + "{{ a|tojson }}" * 9,
    "wide characters in upper case": "{% set a = 'ΐ' * 900000 %}" + times(99, "{{ a.upper() }}"),
    "words in title case": "{{ ('a ' * 450000)|title }}",
    "a split text": "{{ (' a' * 450000).split()|length }}",
    "lines": "{{ ('\\n' * 900000).splitlines()|length }}",
    "captured text": times(1000, "{% set a %}" + "x" * 40000 + "{% endset %}"),
    "a macro's text": "{% macro f() %}" + "x" * 40000 + "{% endmacro %}" + times(1000, "{{ f() }}"),
    "marked copies": WIDE + kept("a|safe"),
    "marked text joined by a filter": MARKED + "{{ ([m] * 400)|join }}",
    "marked text formatted by %": MARKED + "{{ ('%s' * 400) % ((m,) * 400) }}",
    "marked text joined by ~": MARKED + "{{ m" + " ~ m" * 400 + " }}",
    "dates of many columns": kept("strftime_now('%40000Y" + "x" * 190 + "')"),
    "kept macros": kept_macros(20),
    "a text joined of its characters": kept("'😀' * 900000", 16)
    + "{% set a = 'ΐ' * 900000 %}{{ ''.join(a)|length }}",
    "all private characters": times(6, "x" * 30000) + "".join(map(chr, range(0xF0000, 0xF4000)))
    + times(9, "{{ 'x' * 200000 }}"),
}  # fmt: skip
# What changes or reads what is not its own, and parts of the language that no chat needs.
REFUSED = {
    "cycler": "{{ cycler(1).next() }}",
    "joiner": "{{ joiner()() }}",
    "a class's method": "{{ dict.update(messages[0], {'content': 'EVIL'}) }}",
    "arguments by *": "{{ range(*[1, 2]) }}",
    "arguments by **": "{{ dict(**messages[0]) }}",
    "a recursive loop": "{% for n in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "a call block": "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}a{% endcall %}",
    "a filter block": "{% filter upper %}a{% endfilter %}",
    "a block": "{% block b %}a{% endblock %}",
    "self": "{{ self }}",
    "a printed function": "{{ range }}",
    "a printed namespace": "{{ namespace(a=1) }}",
    "a printed loop": "{% for n in [1] %}{{ loop }}{% endfor %}",
    "a printed method": "{{ 'a'.upper }}",
    "a loop over a loop": "{% for n in [1, 2] %}{% for m in loop %}{% endfor %}{% endfor %}",
    "a namespace that is called": "{% set f = namespace(__self__='a') %}{{ f() }}",
    "a text that is called": "{{ 'a'() }}",
    "a subscript of a function": "{{ dict['a']['b'] }}{{ dict['function'].x }}",
    "a wide field by attribute": "{{ '{0.real}'.format(1) }}",
    "a wide field by name": "{{ '%(a)s' % {'a': 1} }}",
    "a date of many columns": "{{ strftime_now(['%Y']) }}",
}
ALL = {**LAZY, **NUMBERS, **COMPARISONS, **MEMORY, **REFUSED}


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("attack", ALL)
def test_an_attack_ends_with_an_error_soon(attack: str) -> None:
    template = ChatTemplate(ALL[attack], named={}, special=["<|im_end|>"], tags=["<think>"])
    with pytest.raises(ChatTemplateError, match="chat template") as raised:
        list(template.render_pieces(CONTEXT))
    assert "MemoryError" not in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 2_000


@pytest.mark.usefixtures("bounded")
def test_names_of_refused_attributes_are_not_written_out_each_time() -> None:
    name = "_" + "字" * 20_000
    source = f"{{% set s = namespace({name}=1) %}}" + kept(f"s.{name}", 9999)
    assert ChatTemplate(source, named={}, special=[], tags=[]).render(CONTEXT) == ""


def test_a_long_token_of_the_checkpoint_buys_no_steps() -> None:
    source = times(2000, times(1000, "{% set x = [n] %}"))
    template = ChatTemplate(source, named={"eos_token": "x" * 10**7}, special=[], tags=[])
    with pytest.raises(ChatTemplateError, match="more steps"):
        template.render(CONTEXT)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(("count", "length"), [(10, 10_000), (5_000, 20)])
def test_many_and_long_tokens_are_told_apart_soon(count: int, length: int) -> None:
    special = [f"<|{n:06d}{'x' * (length - 10)}|>" for n in range(count)]
    source = special[-1] + "{{ messages[0].content }}" + special[0]
    pieces = ChatTemplate(source, named={}, special=special, tags=[]).render_pieces(CONTEXT)
    assert list(pieces) == [(special[-1], True), ("Hi", False), (special[0], True)]
    begun = ChatTemplate("{{ '" + special[1][:9] + "' }}", named={}, special=special, tags=[])
    with pytest.raises(ChatTemplateError, match="puts a control token together from parts"):
        begun.render_pieces(CONTEXT)


@pytest.mark.parametrize(
    "change",
    [
        "dict.update(messages[0], {'content': 'EVIL'})",
        "dict.pop(messages[0], 'content')",
        "dict.clear(messages[0])",
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


def test_copies_are_new_values(with_template: Opener) -> None:
    tokenizer = with_template(
        "{% set d = dict(messages[0], content='x', z=1) %}{{ d }}{{ messages[0] }}"
    )
    assert tokenizer.apply_chat_template(USER) == (
        "{'role': 'user', 'content': 'x', 'z': 1}{'role': 'user', 'content': 'Hi'}"
    )


@pytest.mark.parametrize("words", ["x\\nerror: all fine", "\\x1b[2Jx", "x\\r\\u2028y", "\\u202ex"])
def test_what_a_template_says_is_one_printable_line(words: str) -> None:
    for source in (
        "{{ raise_exception('" + words + "') }}",
        "{{ raise_exception(['" + words + "']) }}",
        "{{ messages['" + words + "'].x }}",
        "{% " + words.encode().decode("unicode_escape") + " %}",
    ):
        with pytest.raises(ChatTemplateError, match="chat template") as raised:
            ChatTemplate(source, named={}, special=[], tags=[]).render(CONTEXT)
        assert str(raised.value).isprintable()


def test_a_lone_surrogate_is_placed_in_the_messages_own_text(tokenizer: Tokenizer) -> None:
    messages = [{"role": "user", "content": "a\udcffb"}]
    with pytest.raises(ChatTemplateError, match=r"^messages\[0\]\['content'\]: .* character 1\)"):
        tokenizer.encode_chat(messages)


def test_a_lone_surrogate_of_the_template_is_called_its_own(with_template: Opener) -> None:
    with pytest.raises(ChatTemplateError, match="chat template writes a lone surrogate"):
        with_template("{{ '\\ud800' }}").encode_chat(USER)


def test_marks_are_found_in_any_chat_but_one_that_holds_all(tokenizer: Tokenizer) -> None:
    nearly = "".join(map(chr, PRIVATE_USE[2:]))
    assert tokenizer.encode_chat([{"role": "user", "content": nearly}])
    with pytest.raises(ChatTemplateError, match="nearly all of the 65,534 private-use"):
        tokenizer.encode_chat([{"role": "user", "content": nearly + chr(PRIVATE_USE[0])}])
