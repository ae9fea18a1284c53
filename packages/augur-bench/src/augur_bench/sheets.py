"""The result's tables: one description of each column, for terminal, report and README."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

NOTHING = "-"

Object = dict[str, Any]
"""A rung, a pair or a point of a sweep, as the result holds it."""


class Column(NamedTuple):
    """A figure: its heading, with a line break where a narrow table may break, and its text."""

    heading: str
    cell: Callable[[Object], str]
    is_words: bool = False


class Sheet(NamedTuple):
    """A table, and the picture that belongs to it: a file's name and what it shows."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Object]
    picture: tuple[str, str] | None = None

    @property
    def cells(self) -> list[list[str]]:
        """As text, row by row."""
        return [[column.cell(row) for column in self.columns] for row in self.rows]


def quantity(value: float | None, scale: float = 1.0) -> str:
    """Three significant digits, with an exponent only far below 1."""
    if not value:
        return NOTHING if value is None else "0"
    scaled = value * scale
    size = abs(scaled)
    if size < 0.01:
        return f"{scaled:.1e}"
    return f"{scaled:,.{3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0}f}"


def with_spread(spread: Object | None, scale: float = 1.0, unit: str = "") -> str:
    """ "5.91 ±2%": the median, and half the range as a part of it; "5.91 ±-" of one reading."""
    if spread is None:
        return NOTHING
    half = _half_range(spread)
    relative = f"{half / spread['median']:.0%}" if half else NOTHING
    return f"{quantity(spread['median'], scale)}{unit} ±{relative}"


def times_range(ratio: Object | None) -> str:
    """ "5.2x (5.0-5.4)"."""
    if ratio is None:
        return NOTHING
    ends = f"{quantity(ratio['low'])}-{quantity(ratio['high'])}" if _half_range(ratio) else NOTHING
    return f"{quantity(ratio['median'])}x ({ends})"


def exact(value: float) -> str:
    """Two digits and an exponent; a plain 0 for exactly zero."""
    return "0" if value == 0 else f"{value:.1e}"


def percent(share: Object | None) -> str:
    """ "61 ±2": percent of the limit that is nearer, and half the range."""
    if share is None:
        return NOTHING
    spread = share["of_roofline"]
    half = _half_range(spread)
    return f"{100 * spread['median']:.0f} ±{f'{100 * half:.0f}' if half else NOTHING}"


def parting_text(own_text: Object) -> str:
    """ "none in 32", or "at 12 (0.031)", counted from 1."""
    if own_text["index"] is None:
        return f"none in {own_text['num_tokens']}"
    return f"at {own_text['index'] + 1} ({quantity(own_text['margin'])})"


def verdict_text(verdict: Object) -> str:
    """ "21%" of the budget, or "FAILED 32x"."""
    share = verdict["share"]
    return f"{share:.0%}" if verdict["held"] else f"FAILED {quantity(share)}x"


def _half_range(spread: Object) -> float:
    """0 of a single reading, of which no spread is known: no two seconds are equal."""
    half: float = (spread["high"] - spread["low"]) / 2
    return half


def _value(heading: str, key: str, scale: float = 1.0) -> Column:
    return Column(heading, lambda row: quantity(row[key], scale))


def _spread(heading: str, key: str, scale: float = 1.0, unit: str = "") -> Column:
    return Column(heading, lambda row: with_spread(row[key], scale, unit))


def _words(heading: str, key: str) -> Column:
    return Column(heading, lambda row: row[key] or "", is_words=True)


def _part(heading: str, key: str, cell: Callable[[Any], str]) -> Column:
    """Of an object within the object."""
    return Column(heading, lambda row: cell(row[key]))


_RUNG = _words("rung", "name")
_FIRST_TOKEN = _spread("first token\ns", "ttft_s")
_DECODE = _spread("decode\ntokens/s", "decode_tokens_per_s")
_PEAK = _value("peak\nGB", "peak_memory_bytes", 1e-9)
_DIFFERENCE = _part("largest\nlogit diff", "exactness", lambda it: exact(it["max_abs_diff"]))
_SAME_TOP = _part(
    "same top\ntoken", "exactness", lambda it: f"{it['num_same_top']}/{it['num_positions']}"
)

SUMMARY = (_RUNG, _FIRST_TOKEN, _DECODE, _PEAK, _DIFFERENCE, _SAME_TOP)
SPEED = (
    _RUNG,
    _spread("load\ns", "load_s"),
    _FIRST_TOKEN,
    _spread("prefill\ntokens/s", "prefill_tokens_per_s"),
    _DECODE,
    _part("token\np50 ms", "token_s", lambda it: quantity(it["p50"], 1e3)),
    _part("token\np95 ms", "token_s", lambda it: quantity(it["p95"], 1e3)),
    _PEAK,
)
EXACTNESS = (
    _RUNG,
    _DIFFERENCE,
    _part("mean KL\nnats", "exactness", lambda it: exact(it["mean_kl_nats"])),
    _part("largest KL\nnats", "exactness", lambda it: exact(it["max_kl_nats"])),
    _SAME_TOP,
    _part("own text parts\nat (margin)", "exactness", lambda it: parting_text(it["own_text"])),
    _part("prefill\n% limit", "share", lambda it: percent(it["prefill"])),
    _part("decode\n% limit", "share", lambda it: percent(it["decode"])),
)
GAIN = (
    _RUNG,
    _words("parent", "parent"),
    _part("prefill", "gain", lambda it: with_spread(it and it["prefill"], unit="x")),
    _part("decode", "gain", lambda it: with_spread(it and it["decode"], unit="x")),
    _words("what it changes", "changes"),
)
PAIRS = (
    Column("ours / theirs", lambda pair: f"{pair['ours']} / {pair['theirs']}", is_words=True),
    _part("prefill", "prefill", times_range),
    _part("first token", "ttft", times_range),
    _part("decode", "decode", times_range),
)
GROWTH = (
    _part("prompt\ntokens", "prompt_tokens", str),
    _part("new\ntokens", "new_tokens", str),
    _value("cache\nMB", "cache_bytes", 1e-6),
    _spread("prefill s\ncached", "cached_prefill_s"),
    _spread("prefill s\nuncached", "uncached_prefill_s"),
    _spread("ms a token\ncached", "cached_token_s", 1e3),
    _spread("ms a token\nuncached", "uncached_token_s", 1e3),
    _spread("cached decodes\nfaster", "decode_ratio", unit="x"),
)

_MANY = (_part("number", "num_sequences", str), _words("rung", "rung"))
THROUGHPUT = (
    *_MANY,
    _spread("tokens/s\nin all", "tokens_per_s"),
    _spread("one by\none", "gain", unit="x"),
    _value("cache\nMB", "cache_bytes", 1e-6),
    _value("needed\nMB", "needed_bytes", 1e-6),
    Column("same\ntexts", lambda it: f"{it['num_same_texts']}/{it['num_sequences']}"),
)
WAITING = (
    *_MANY,
    _part("first token\np50 s", "ttft_s", lambda it: quantity(it["p50"])),
    _part("first token\np95 s", "ttft_s", lambda it: quantity(it["p95"])),
    _part("between\np50 ms", "between_s", lambda it: quantity(it["p50"], 1e3)),
    _part("between\np95 ms", "between_s", lambda it: quantity(it["p95"], 1e3)),
)


def all_sheets(result: dict[str, Any]) -> list[Sheet]:
    """Every table there is something to put in."""
    rungs = result["rungs"]
    ladder = "ladder", "Decode rate, time to first token and logit difference of each rung"
    roofline = "roofline", "Each rung under the machine's roofs"
    held = "Held against the float32 eager reference, and against the machine's limit"
    gain = "What each rung changes, and how many times faster it is than its parent"
    pairs = "How many times faster ours is: median (range) of runs that took turns"
    sheets = [
        Sheet("Speed: median of the runs ± half their range", SPEED, rungs, ladder),
        Sheet(held, EXACTNESS, rungs, roofline),
        Sheet(gain, GAIN, rungs),
        Sheet(pairs, PAIRS, result["pairs"]),
    ]
    for name, sweep in result["sweeps"].items():
        title = f"Growth with the {'prompt' if name == 'prompt' else 'new tokens'}"
        growth = f"growth-{name}", "Prefill, decode, their ratio and cache memory by length"
        sheets.append(Sheet(title, GROWTH, sweep["points"], growth))
    many = "throughput", "Tokens per second in all, and time to first token, by number of sequences"
    points = result["throughput"]
    sheets.append(Sheet("Many sequences at once", THROUGHPUT, points, many))
    sheets.append(Sheet("How long each of them waits", WAITING, points))
    return [sheet for sheet in sheets if sheet.rows]
