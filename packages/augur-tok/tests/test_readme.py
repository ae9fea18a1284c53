"""The README's example runs as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_readmes_example_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(example, {"folder": folder})
    printed = capsys.readouterr().out
    assert "Grüße, 世界!" in printed
    assert printed.count("What does <|im_end|> do?") == 2
