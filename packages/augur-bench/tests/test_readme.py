"""The README's example runs as it stands and prints what its comment says."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.gate
@pytest.mark.usefixtures("workers_here")
def test_the_example_runs(tiny_folder, tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    source = example.replace('"path/to/a/checkpoint"', repr(str(tiny_folder)))
    assert source != example
    path = tmp_path / "my_rungs.py"
    path.write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(source, str(path), "exec"), {"__name__": "__main__", "__file__": str(path)})
    *_, cached, ours = capsys.readouterr().out.splitlines()
    assert cached == "cached 0.0"
    name, difference = ours.split()
    assert name == "my-norm"
    assert 0 <= float(difference) < 1e-4
    assert (tmp_path / "report" / "report.md").is_file()
