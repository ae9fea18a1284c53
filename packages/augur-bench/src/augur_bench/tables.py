"""The result for a person at a terminal of 100 columns."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from augur_bench.sheets import Sheet, all_sheets
from augur_bench.texts import footnotes, heading_lines, limits_lines

WIDTH = 100


def print_result(console: Console, result: dict[str, Any]) -> None:
    """Print everything; `result` is what `bench_object` gave."""
    _print_lines(console, heading_lines(result))
    for sheet in all_sheets(result):
        console.print(_table(sheet))
    _print_lines(console, [*limits_lines(result), *footnotes(result)])


def _print_lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(line, markup=False)
    console.print()


def _table(sheet: Sheet) -> Table:
    table = Table(
        title=sheet.title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for index, name in enumerate(sheet.columns):
        is_text = index in sheet.text_columns
        table.add_column(name, justify="left" if is_text else "right", no_wrap=index < 4)
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    return table
