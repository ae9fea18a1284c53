"""The real 0.5B checkpoint: augur's bits are transformers'."""

import json

import pytest

from augur_proof.prompts import read_prompts

pytestmark = [pytest.mark.real, pytest.mark.gate]


def test_two_prompts_and_their_first_tokens_are_equal_to_the_bit(parity, tmp_path):
    prompts = read_prompts()
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps([prompts[0], prompts[4]]), encoding="utf-8")
    result = parity("check", "--prompts", path, "--max-new-tokens", 4, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["prompts"]
    assert [one["num_logit_rows"] for one in found] == [4, 4]
    assert {one["num_differing_logits"] for one in found} == {0}


def test_the_reference_prompts_are_ten(parity):  # noqa: ARG001
    assert len(set(read_prompts())) == 10
