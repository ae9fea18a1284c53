"""The README's example runs as it stands."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch


def test_the_example_runs(
    write_checkpoint: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    readme = Path(__file__).parents[1] / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 1
    tensors = {"weight": torch.ones(2, 4), "bias": torch.tensor([0.5, -0.5])}
    write_checkpoint(tensors, folder="tiny")
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks[0], str(readme), "exec"), {})
    assert capsys.readouterr().out == "tiny 10 (2, 4)\ntensor([4.5000, 3.5000])\n"
