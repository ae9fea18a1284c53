"""The README's examples run as they stand and print what their comments say."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_print_what_they_say(capsys):
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 4
    names: dict[str, object] = {}
    for example in examples:  # in order: the last uses the model before it
        exec(compile(example, str(README), "exec"), names)
        promised = re.findall(r"^print\(.*\)  # (.*)$", example, re.MULTILINE)
        assert promised
        assert capsys.readouterr().out.splitlines() == promised
