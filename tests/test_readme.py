"""The README's Python examples run as written."""

import re
from functools import partial
from pathlib import Path

import pytest

import augur
import augur_weights
from augur_proof.tiny_checkpoint import write_tiny_checkpoint

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def run_examples(examples: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What each printed; later ones use the model of the first."""
    names: dict[str, object] = {}
    printed = []
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
        printed.append(capsys.readouterr().out)
    return printed


def test_every_example_takes_at_most_twenty_lines():
    assert len(EXAMPLES) == 10
    assert max(example.count("\n") for example in EXAMPLES) <= 20
    assert EXAMPLES[0].split() == [
        *["import", "augur", "llm", "=", "augur.load()"],
        *['print(llm.chat("Name', "a", 'colour.").text)'],
    ]


def test_the_examples_run_with_a_tiny_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder = write_tiny_checkpoint(tmp_path / "tiny")
    monkeypatch.setattr(augur, "load", partial(augur.load, folder, device="cpu", dtype="float32"))
    monkeypatch.setattr(augur_weights, "resolve", lambda: folder)
    # Its vocabulary is not Qwen's: the ids in the tokenizer's example are.
    examples = [example for example in EXAMPLES if "27, 91, 318" not in example]
    assert len(examples) == len(EXAMPLES) - 1
    assert all(run_examples(examples, capsys)[:7])


@pytest.mark.real
@pytest.mark.gate
@pytest.mark.usefixtures("real_checkpoint")
def test_the_examples_run_with_the_default_model(capsys: pytest.CaptureFixture[str]):
    colour, listed, function, batch, talk, ball, norm, _, _, checkpoint = run_examples(
        EXAMPLES, capsys
    )
    assert colour.strip()
    assert listed.split()[-2] in ("eos", "stop", "length")
    assert function.rstrip().endswith("length")
    assert len(batch.strip().splitlines()) >= 2
    assert "tokens reused:" in talk
    assert re.fullmatch(r"\{'colour': '(red|green)', 'size': -?\d+\}\n", ball)
    assert norm.strip()
    assert checkpoint == "494032768 (151936, 896)\n"
