"""The table of faults is whole, and every test that it names is there."""

import ast
import re
from pathlib import Path

import pytest

from augur_tok import backend_checks, checkpoint_files, template_files
from augur_tok import template_process as process

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/robustness.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w/-]+\.py)::(\w+)`")

CASES = {"L": 14, "T": 10, "M": 7, "G": 8, "B": 5}


def test_every_test_that_is_named_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 80
    missing = [f"{file}::{name}" for file, name in named if name not in named_in(ROOT / file)]
    assert missing == []


def test_every_case_has_one_row_and_every_row_a_test() -> None:
    rows = re.findall(r"^\| ([A-Z]\d+) \|(.*)$", PAGE, flags=re.MULTILINE)
    expected = [f"{kind}{number + 1}" for kind, count in CASES.items() for number in range(count)]
    assert [case for case, _ in rows] == expected
    assert [case for case, row in rows if not NAMED.search(row)] == []


def test_whatever_is_in_code_marks_and_looks_like_a_test_was_looked_for() -> None:
    # A slip in spelling a path must not take a name out of the comparison.
    assert len(re.findall("::test_", PAGE)) == len(NAMED.findall(PAGE))


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"`((?:tests|packages)/[^`:]+\.py)`", PAGE)
    assert named
    assert [file for file in named if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize(
    "row",
    [
        f"| {process.STEPS:,} | {process.STEPS_EACH} |",
        f"| {process.LARGEST:,} | {process.LARGEST_EACH} |",
        f"| {process.BYTES // 10**6} MB | {process.BYTES_EACH} bytes |",
        f"| time of the processor | {process.SECONDS} s | {10**6 // process.BYTES_A_SECOND} µs |",
        f"| {template_files.MAX_CHARACTERS:,} characters |",
        f"| a tokenizer file | {checkpoint_files.READER.max_bytes // 10**6} MB |",
        f"together | {backend_checks.MAX_ADDED_CHARACTERS:,} characters |",
    ],
)
def test_the_bounds_that_are_published_are_those_of_the_code(row: str) -> None:
    assert row in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def named_in(file: Path) -> set[str]:
    """The names of the test functions in a file; none where there is no such file."""
    if not file.is_file():
        return set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {node.name for node in functions if node.name.startswith("test_")}
