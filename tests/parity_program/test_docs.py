"""The examples of docs/parity.md do what the page says."""

import re
import shutil
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "parity.md"


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
