"""The README's example runs as it stands, on the CPU, and prints what its comment says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.gate
def test_the_example_prints_what_it_says():
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    ended = subprocess.run(
        [sys.executable, "-c", example],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    promised = re.findall(r"^print\(.*\)  # (.*)$", example, re.MULTILINE)
    assert promised
    assert ended.stdout.splitlines() == promised, ended.stderr


def test_the_table_names_every_module():
    modules = {
        path.stem
        for path in (Path(__file__).parents[1] / "src/augur_kernels").glob("*.py")
        if not path.stem.startswith("__")
    }
    table = README.partition("## Modules")[2]
    assert set(re.findall(r"^\| `(\w+)` ", table, re.MULTILINE)) == modules
