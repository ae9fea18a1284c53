"""The README's example runs as it stands and sees what it says."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_example_tells_right_from_wrong(capsys):
    pytest.importorskip("transformers")
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "the reference ops: the same bits",
        "the broken op: seen",
    ]
