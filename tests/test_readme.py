"""The README's Python examples run as written."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.real
@pytest.mark.usefixtures("real_checkpoint")
def test_every_python_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert len(examples) == 6
    names: dict[str, object] = {}
    for example in examples:  # in order: later ones use the model of the first
        exec(compile(example, "README.md", "exec"), names)
    answer, *chat, checkpoint = capsys.readouterr().out.splitlines()
    assert answer.endswith(" eos")
    assert "red" in answer.lower()
    assert len(chat) == 2
    assert all(chat)
    assert checkpoint == "494032768 (151936, 896)"
