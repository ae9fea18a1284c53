"""transformers' side tells the truth, whichever release is installed."""

import shutil
import sys
from collections import UserDict
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from augur_proof import ProofError, Referee, write_tiny_checkpoint
from augur_proof.transformers_api import cache_argument, token_ids_of

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def referee(checkpoint):
    return Referee.load(checkpoint, dtype=torch.float32)


class Encoding(UserDict):
    """A mapping that is no dict, as transformers' BatchEncoding is."""


@pytest.mark.parametrize(
    "rendered",
    [
        [3, 1, 2],
        [[3, 1, 2]],
        {"input_ids": [3, 1, 2], "attention_mask": [1, 1, 1]},
        Encoding(input_ids=[3, 1, 2], attention_mask=[1, 1, 1]),
        Encoding(input_ids=[[3, 1, 2]]),
        Encoding(input_ids=torch.tensor([[3, 1, 2]])),
        transformers.BatchEncoding({"input_ids": [[3, 1, 2]], "attention_mask": [[1, 1, 1]]}),
        torch.tensor([3, 1, 2]),
    ],
    ids=[
        "list",
        "batch",
        "dict",
        "mapping",
        "mapping of a batch",
        "of a tensor",
        "batch encoding",
        "tensor",
    ],
)
def test_ids_are_found_in_whatever_a_chat_template_gives(rendered):
    assert token_ids_of(rendered) == [3, 1, 2]


def test_a_prompt_is_encoded_as_the_rendered_template_is(referee):
    chat = [{"role": "user", "content": "Why?"}]
    text = referee.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text.startswith("<|im_start|>user\nWhy?")
    assert referee.encode("Why?") == referee.tokenizer(text)["input_ids"]


def test_without_a_chat_template_a_prompt_is_raw_text(tmp_path):
    folder = write_tiny_checkpoint(tmp_path / "base", chat_template=None)
    base = Referee.load(folder, dtype=torch.float32)
    assert base.encode("Why?") == base.tokenizer("Why?")["input_ids"]
    with pytest.raises(ProofError, match="no tokens"):
        base.encode("")


def test_its_tokens_are_those_of_transformers_own_greedy_generation(referee, generate):
    answer = referee.answer("Why is the sky blue?", 12)
    token_ids, logits = generate(referee, answer.input_ids, 12)
    assert token_ids == answer.generated_ids
    assert torch.equal(logits, answer.logits)


def test_an_eos_ends_the_answer_and_is_part_of_it(referee, monkeypatch):
    without = referee.answer("Why is the sky blue?", 6).generated_ids
    assert len(without) == 6
    eos = without[3]
    monkeypatch.setattr(referee.model.generation_config, "eos_token_id", [eos])
    ended = referee.answer("Why is the sky blue?", 6).generated_ids
    assert ended == without[: without.index(eos) + 1]


def test_a_penalty_of_the_checkpoint_plays_no_part(referee, monkeypatch):
    without = referee.answer("Why is the sky blue?", 12).generated_ids
    monkeypatch.setattr(referee.model.generation_config, "repetition_penalty", 9.0)
    assert referee.answer("Why is the sky blue?", 12).generated_ids == without


def test_recording_a_pass_does_not_change_a_bit(checkpoint):
    referee = Referee.load(checkpoint, dtype=torch.float32)
    answer = referee.answer("Why?", 3)
    passes = referee.record(answer.input_ids, decode_steps=2)
    fed = [one.token_ids for one in passes]
    assert fed == [answer.input_ids, [answer.generated_ids[0]], [answer.generated_ids[1]]]
    for row, one in zip(answer.logits, passes, strict=True):
        (logits,) = [value for point, value in one.values.items() if str(point) == "lm_head"]
        assert torch.equal(logits[0, -1], row)


def test_weights_lie_where_torch_would_put_them(referee):
    assert {parameter.data_ptr() % 64 for parameter in referee.model.parameters()} == {0}


def test_a_checkpoint_that_lacks_a_tensor_is_no_source_of_truth(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint, tmp_path / "partial")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.3.self_attn.q_proj.bias"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ProofError, match=r"no tensor model\.layers\.3\.self_attn\.q_proj\.bias"):
        Referee.load(folder, dtype=torch.float32)


def test_a_folder_that_transformers_cannot_load_is_one_message(tmp_path):
    with pytest.raises(ProofError, match="transformers cannot load it"):
        Referee.load(tmp_path, dtype=torch.float32)


def test_a_missing_transformers_is_one_message_that_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ProofError, match="uv sync"):
        Referee.load(tmp_path, dtype=torch.float32)


def _newer(*, input_ids, cache=None, past_key_values=None):
    return input_ids, cache, past_key_values


def _older(*, input_ids, past_key_values=None):
    return input_ids, past_key_values


@pytest.mark.parametrize(("forward", "name"), [(_newer, "cache"), (_older, "past_key_values")])
def test_the_cache_is_handed_over_under_the_name_that_the_release_uses(forward, name):
    assert cache_argument(SimpleNamespace(forward=forward)) == name


def test_the_installed_release_takes_the_cache(checkpoint, referee):
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    assert cache_argument(model) in ("cache", "past_key_values")
    answer = referee.answer("Why?", 4)
    whole = torch.tensor([answer.input_ids + answer.generated_ids[:3]])
    with torch.inference_mode():
        uncached = model(whole, use_cache=False).logits[0, -4:]
    assert torch.allclose(uncached, answer.logits, atol=1e-4)
