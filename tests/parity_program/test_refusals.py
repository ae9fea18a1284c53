"""What cannot be proven is refused before transformers runs."""

import pytest

from augur_model import QwenConfig
from augur_proof.errors import ProofError
from augur_proof.referee import Referee
from augur_proof.sides import _check_fits
from augur_proof.tiny_checkpoint import CONFIG


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


def test_all_of_the_models_positions_can_be_used():
    config = QwenConfig.from_dict(CONFIG | {"vocab_size": 320})
    limit = config.max_position_embeddings
    _check_fits(config, "the prompt", 12, limit - 12, "new tokens")
    with pytest.raises(ProofError, match=f"the model has {limit} positions"):
        _check_fits(config, "the prompt", 13, limit - 12, "new tokens")
