"""The ground-truth file: exact, whole or not there, and checked when read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from augur_proof import (
    Answer,
    GroundTruth,
    MadeWith,
    ProofError,
    read_ground_truth,
    write_ground_truth,
)

MADE_WITH = MadeWith(
    "transformers", "a/model", dtype="float32", device="cpu", attention="eager", max_new_tokens=2
)
ANSWERS = [
    Answer("¿Qué?", [1, 2, 3], [4, 0], torch.tensor([[0.1, -0.0, 1e-45], [9.0, 9.0, 9.0]])),
    Answer("two\nlines", [7], [1], torch.tensor([[3.4e38, float("inf"), -1.0]])),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "truth.safetensors"
    write_ground_truth(path, GroundTruth(MADE_WITH, ANSWERS))
    return path


def rewrite(path: Path, logits: torch.Tensor | None = None, **metadata: str) -> None:
    with safe_open(path, framework="pt") as handle:
        old = handle.metadata()
    tensors = load_file(path) if logits is None else {"first_token_logits": logits}
    save_file(tensors, path, metadata={**old, **metadata})


def test_it_keeps_every_bit_of_the_first_logits_and_all_of_the_rest(path):
    truth = read_ground_truth(path)
    assert truth.made_with == MADE_WITH
    for kept, written in zip(truth.answers, ANSWERS, strict=True):
        assert replace(kept, logits=None) == replace(written, logits=None)
        assert torch.equal(kept.logits.view(torch.int32), written.logits[:1].view(torch.int32))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_logits_stay_narrow(dtype, tmp_path):
    narrow = getattr(torch, dtype)
    answers = [replace(one, logits=one.logits.to(narrow)) for one in ANSWERS]
    write_ground_truth(tmp_path / "t", GroundTruth(replace(MADE_WITH, dtype=dtype), answers))
    assert read_ground_truth(tmp_path / "t").answers[0].logits.dtype == narrow


def test_any_safetensors_reader_finds_one_tensor_and_plain_json(path):
    with safe_open(path, framework="pt") as handle:
        assert list(handle.keys()) == ["first_token_logits"]
        metadata = handle.metadata()
    assert json.loads(metadata["prompts"])[0] == {
        "prompt": "¿Qué?",
        "input_ids": [1, 2, 3],
        "generated_ids": [4, 0],
    }
    assert json.loads(metadata["made_with"])["model"] == "a/model"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def fill_the_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fill_the_disk)
    with pytest.raises(ProofError, match="cannot be written: No space left"):
        write_ground_truth(path, GroundTruth(MADE_WITH, ANSWERS[:1]))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_fewer_tokens_than_recorded_can_be_asked_for_and_more_cannot(path):
    truth = read_ground_truth(path)
    assert truth.cut(None) == truth
    shorter = truth.cut(1)
    assert [one.generated_ids for one in shorter.answers] == [[4], [1]]
    assert shorter.made_with.max_new_tokens == 1
    with pytest.raises(ProofError, match="recorded with 2"):
        truth.cut(3)


def test_a_file_that_is_not_there_or_is_none_is_refused(tmp_path):
    with pytest.raises(ProofError, match="there is no such file"):
        read_ground_truth(tmp_path / "nowhere")
    text = tmp_path / "text"
    text.write_text("version https://git-lfs.github.com/spec/v1\n", encoding="utf-8")
    with pytest.raises(ProofError, match="not a whole safetensors file"):
        read_ground_truth(text)


def test_a_file_cut_short_is_refused(path):
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ProofError, match="not a whole safetensors file"):
        read_ground_truth(path)


def test_weights_are_no_ground_truth(tmp_path):
    weights = tmp_path / "model.safetensors"
    save_file({"model.norm.weight": torch.ones(2)}, weights, metadata={"format": "pt"})
    with pytest.raises(ProofError, match="this version: pt, expected augur-ground-truth/1"):
        read_ground_truth(weights)


def _prompts(**change: object) -> str:
    entries = [
        {"prompt": one.prompt, "input_ids": one.input_ids, "generated_ids": one.generated_ids}
        for one in ANSWERS
    ]
    entries[1].update(change)
    return json.dumps(entries)


def _made_with(**change: object) -> str:
    return json.dumps({**MADE_WITH.to_json(), **change})


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": "augur-ground-truth/2"}, "this version: augur-ground-truth/2, expected"),
        ({"prompts": "[{"}, "prompts is not JSON"),
        ({"prompts": "[]"}, "prompts is no list, or empty"),
        ({"prompts": '{"a": 1}'}, "prompts is no list"),
        ({"prompts": "[1, 2]"}, "prompt 1 is 1"),
        ({"prompts": _prompts(input_ids="12")}, "prompt 2: input_ids is '12'"),
        ({"prompts": _prompts(input_ids=[])}, r"prompt 2: input_ids is \[\], expected token ids"),
        ({"prompts": _prompts(generated_ids=[1.5])}, r"prompt 2: generated_ids is \[1.5\]"),
        ({"prompts": _prompts(generated_ids=[-1])}, r"prompt 2: generated_ids is \[-1\]"),
        ({"prompts": _prompts(extra=1)}, "prompt 2 .* expected the keys"),
        ({"made_with": "null"}, "made_with is None"),
        ({"made_with": _made_with(model=3)}, "made_with.model is 3"),
        ({"made_with": _made_with(max_new_tokens=True)}, "made_with.max_new_tokens is True"),
        ({"made_with": _made_with(dtype="float64")}, "made_with.dtype is 'float64'"),
    ],
)
def test_metadata_that_is_wrong_is_named(path, metadata, message):
    rewrite(path, **metadata)
    with pytest.raises(ProofError, match=message) as caught:
        read_ground_truth(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "logits", [torch.ones(3, 3), torch.ones(2), torch.ones(2, 3, dtype=torch.float64)]
)
def test_logits_that_do_not_fit_the_prompts_are_refused(path, logits):
    rewrite(path, logits)
    with pytest.raises(ProofError, match=r"expected torch.float32 \[2, vocab_size\]"):
        read_ground_truth(path)
