"""The README's examples run as they stand and tell right from wrong."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_examples_tell_right_from_wrong(capsys):
    pytest.importorskip("transformers")
    names = {}
    for example in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(example, "README.md", "exec"), names)
    held, wrong, traced = capsys.readouterr().out.splitlines()
    assert held == "a fused norm: held"
    assert re.match(r"a wrong epsilon: [\d,]+ of 1,216 values differ, .*; allowed: 1e-05", wrong)
    assert traced == "129 True"
