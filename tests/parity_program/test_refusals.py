"""What cannot be proven is refused before transformers runs."""

import sys

import pytest

from augur_proof import Referee


@pytest.fixture
def forbid_answers(monkeypatch):
    def forbidden(*_):
        raise AssertionError("transformers ran")

    monkeypatch.setattr(Referee, "answer", forbidden)
    monkeypatch.setattr(Referee, "record", forbidden)


@pytest.mark.usefixtures("forbid_answers")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "--max-new-tokens", "5000"), "5000 new tokens follow"),
        (("record", "--max-new-tokens", "5000"), "5000 new tokens follow"),
        (("trace", "--decode-steps", "1000"), "1000 decode steps follow"),
        (("record", "--out", "/nonexistent/x"), "--out /nonexistent/x: there is no folder"),
        (("record", "--out", "/"), "--out /: is a folder, expected a file"),
        (("check", "--truth", "/"), "/: is a folder, expected a ground-truth file"),
        (("check", "--tolerance", "inf"), "inf is no bound"),
        (("trace", "--tolerance", "inf"), "inf is no bound"),
    ],
)
def test_it_is_refused_before_the_work(parity, checkpoint, arguments, message):
    result = parity(*arguments, "--model", checkpoint)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_a_truth_file_is_checked_where_transformers_is_not_installed(
    parity, truth_file, checkpoint, monkeypatch
):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert parity("check", "--truth", truth_file).exit_code == 0
    beside = parity("check", "--model", checkpoint)
    assert beside.exit_code == 2
    assert "transformers, the source of truth, cannot be imported" in beside.stderr
