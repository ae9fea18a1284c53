"""The examples of docs/parity.md and docs/kernels.md do what the pages say."""

import re
import shutil
from pathlib import Path

import pytest

from augur_proof.kernels import OPS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "parity.md"


def test_the_kernel_and_the_file_reader_of_the_page_work(parity, truth_file, tmp_path, monkeypatch):
    kernel, reader = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    (tmp_path / "my_kernels.py").write_text(kernel, encoding="utf-8")
    shutil.copy(truth_file, tmp_path / "truth.safetensors")
    monkeypatch.chdir(tmp_path)

    result = parity("check", "--truth", "truth.safetensors", "--ops", "my_kernels:TABLE")
    assert result.exit_code == 0, result.output
    assert "0.0001 of the value, for my_kernels:TABLE against eager" in result.stdout

    names: dict = {}
    exec(reader, names)
    assert names["first_token_logits"].shape[0] == len(names["prompts"]) == 3
    assert names["made_with"]["dtype"] == "float32"


@pytest.mark.gate
def test_the_kernel_of_the_page_is_rejected_for_what_the_page_says(parity, tmp_path, monkeypatch):
    page = (DOCS / "kernels.md").read_text(encoding="utf-8")
    kernel, _ = re.findall(r"```python\n(.*?)```", page, re.S)
    (tmp_path / "a_slip.py").write_text(kernel, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    asked = ("--op", "rms_norm", "--dtype", "bfloat16")
    result = parity("kernel", "a_slip:my_rms_norm", *asked)
    assert result.exit_code == 1
    assert "likely  epsilon is added outside the root" in result.stdout
    # Mended as the page says.
    mended = kernel.replace(".sqrt() + eps", ".add(eps).sqrt()")
    assert mended != kernel
    (tmp_path / "mended.py").write_text(mended, encoding="utf-8")
    result = parity("kernel", "mended:my_rms_norm", *asked, "--no-time")
    assert result.exit_code == 0, result.stdout
    assert "conformant, all 16 workloads held" in result.stdout


@pytest.mark.gate
def test_the_example_in_python_holds():
    page = (DOCS / "kernels.md").read_text(encoding="utf-8")
    _, example = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(example, {})


def test_the_table_of_ops_has_every_op():
    page = (DOCS / "kernels.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == list(OPS)
