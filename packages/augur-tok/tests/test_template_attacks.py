"""Templates that take without end, make much of little, or reach for what is not theirs."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from augur_tok import ChatTemplateError, template_process
from augur_tok.template_process import TemplateProcess

MOMENT = datetime(2024, 2, 29)
HI = [{"role": "user", "content": "Hi"}]


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


DOUBLED = "{% set ns = namespace(x=START) %}" + times(60, "{% set ns.x = GROWN %}") + "{{ ns.x }}"


def doubled(start: str, grown: str) -> str:
    return DOUBLED.replace("START", start).replace("GROWN", grown)


SPELT = "{% set s = 'ab' * 400000 %}"

GROWING = {
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
    "many slices": SPELT + "{% set ns = namespace(x=[]) %}"
    + times(5000, "{% set ns.x = ns.x + [s[1:]] %}"),
    "many slices in macros": SPELT + "{% macro f(n) %}{% set t = s[n:] %}{{ f(n + 1) }}{{ t }}"
    "{% endmacro %}" + times(1000, "{{ f(0) }}"),
    "many lists of characters": SPELT + times(1000, "{% set t = s | list %}{{ t | length }}"),
    "many split texts": SPELT + times(1000, "{% set t = s.split('b') %}{{ t | length }}"),
    "wide fields": "{{ '{:10000000000}'.format(1) }}",
    "wide fields whose width is a value": "{{ '{:{}}'.format(1, '1000000000') }}",
    "wide fields by %": "{{ '%1000000000d' % 1 }}",
    "wide fields by % whose width is a value": "{{ '%*d' % (1000000000, 1) }}",
    "wide indents": "{{ 'a\\nb' | indent(1000000000) }}",
    "wide indents in JSON": "{{ [1] | tojson(indent=1000000000) }}",
    "wide separators in JSON": SPELT + "{{ (range(99999) | list) | tojson(separators=(s, s)) }}",
    "a long date": "{{ strftime_now('%c' * 1000000) }}",
    # large numbers
    "a tower of powers": "{{ 10 ** (10 ** 10) }}",
    "squares of squares": doubled("99", "ns.x * ns.x"),
    "places beyond counting": "{{ 1.5 | round(1000000000, 'ceil') }}",
    # slow
    "lists added up": "{{ ([[1] * 1000] * 1000) | sum(start=[]) }}",
    "comparison of doubled lists": doubled("[1]", "[ns.x, ns.x]") + "{{ ns.x == ns.x }}",
    "a backwards search": SPELT + times(50000, "{{ s.rfind('b' + s[:300000]) }}"),
    "searches": SPELT + times(100000, "{{ s.count('ba' * 1000 + 'c') }}"),
    "a text stripped of a long one": SPELT + "{{ (s + 'c' * 9).strip('é' * 100000 + s) }}",
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
    "what a namespace is made of": "{{ namespace(a=1)._Namespace__attrs.update(a=2) }}",
    "another template": "{% include '/etc/passwd' %}",
    "an import": "{% import 'os' as os %}{{ os }}",
}


ALL = {
    **LAZY, **NUMBERS, **COMPARISONS, **MEMORY, **REFUSED, **GROWING,
    **{f"escape: {name}": source for name, source in ESCAPES.items()},
}  # fmt: skip


@pytest.fixture(scope="module")
def process() -> Iterator[TemplateProcess]:
    """One for all attacks: it has to come through what it refuses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template_process, "SECONDS", 1)
        yield TemplateProcess()


def rendered(process: TemplateProcess, source: str, **variables: Any) -> str:
    return process.render(
        {"messages": HI, **variables},
        source=source,
        named={},
        special=("<|im_end|>",),
        mark="",
        now=MOMENT.isoformat(),
    )


# Those that take a second of the processor each.
SLOW = {
    "a long loop with a long body", "a tuple for a key", "dates in long patterns",
    "loops whose condition never holds", "short texts cut by short texts",
}  # fmt: skip


@pytest.mark.parametrize(
    "attack",
    [pytest.param(name, marks=pytest.mark.gate if name in SLOW else ()) for name in ALL],
)
def test_an_attack_ends_with_an_error(process: TemplateProcess, attack: str) -> None:
    with pytest.raises(ChatTemplateError, match="the checkpoint's chat template") as raised:
        rendered(process, ALL[attack])
    message = str(raised.value)
    assert "MemoryError" not in message
    assert "ended its process" not in message
    assert message.isprintable()
    assert len(message) <= 2_000
    assert rendered(process, "{{ messages[0].content }}") == "Hi"


# Texts as large as a template may make them; smaller ones, so that what follows is reached.
AT_THE_BOUND = {
    name: re.sub(r"\b(900000|800000|450000|400000|300000)\b", lambda n: n[0][:-1], source)
    for name, source in ALL.items()
    if re.search("00000", source)
}


@pytest.mark.gate
@pytest.mark.parametrize("attack", AT_THE_BOUND)
def test_what_is_as_large_as_may_be_ends_too(process: TemplateProcess, attack: str) -> None:
    with suppress(ChatTemplateError):
        assert len(rendered(process, AT_THE_BOUND[attack])) < 110_000
    assert rendered(process, "{{ messages[0].content }}") == "Hi"


def test_memory_is_bounded_whatever_a_template_does(process: TemplateProcess) -> None:
    texts = "{{ (['" + "😀" * 40_000 + "'] * 90000) | join | length }}"
    with pytest.raises(ChatTemplateError, match="takes more than 200 MB"):
        rendered(process, texts)
    assert process._process  # it lives on
    status = Path(f"/proc/{process._process.pid}/status").read_text(encoding="ascii")
    (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
    assert int(peak) * 1024 < 300e6


@pytest.mark.gate
def test_messages_buy_steps_and_a_checkpoints_own_tokens_do_not(process: TemplateProcess) -> None:
    busy = times(1000, times(1000, "{% set x = [n] %}"))
    with pytest.raises(ChatTemplateError, match="takes more steps"):
        process.render(
            {"messages": HI},
            source=busy,
            named={"eos_token": "x" * 10**6},
            special=(),
            mark="",
            now=MOMENT.isoformat(),
        )
    assert rendered(process, busy, more="x" * 10**6) == ""
