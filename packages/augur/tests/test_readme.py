"""The README's example runs as it stands, here with a tiny model for the default one."""

import re
from functools import partial
from pathlib import Path

import pytest

import augur

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    tiny = partial(augur.load, folder, device="cpu", dtype="float32")
    monkeypatch.setattr(augur, "load", tiny)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()
