"""The README's examples run as they stand, here with a tiny model for the default one."""

import re
from functools import partial
from pathlib import Path

import pytest

import augur

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_every_example_takes_at_most_twenty_lines():
    assert len(EXAMPLES) == 7
    assert max(example.count("\n") for example in EXAMPLES) <= 20
    assert EXAMPLES[0].count("\n") == 4  # the three lines, and an empty one


def test_the_examples_run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    pytest.importorskip("llguidance")
    tiny = partial(augur.load, folder, device="cpu", dtype="float32")
    monkeypatch.setattr(augur, "load", tiny)
    names: dict[str, object] = {}
    for example in EXAMPLES:
        exec(compile(example, "README.md", "exec"), names)
        assert capsys.readouterr().out.strip()
