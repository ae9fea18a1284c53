"""The library: prompts in, answers out."""

import dataclasses
from pathlib import Path

import pytest
import torch

import augur
from augur_gen import SamplingParams, StopConditions, generate
from augur_model import EAGER_F32, SDPA

CHAT = [{"role": "user", "content": "Why?"}]


def test_a_chat_is_the_layers_below_by_hand(llm: augur.LLM):
    token_ids = llm.tokenizer.encode_chat(CHAT)
    stop = StopConditions(7, llm.eos_token_ids)
    expected = generate(llm.model, token_ids, stop).run().token_ids
    assert llm.chat("Why?", max_new_tokens=7).token_ids == expected
    assert llm.chat(CHAT, max_new_tokens=7).token_ids == expected
    assert llm.generate(token_ids, llm.options(max_new_tokens=7)).run().token_ids == expected


def test_a_stream_is_the_chat_in_pieces(llm: augur.LLM):
    drawn: augur.Options = {"temperature": 1.0, "seed": 4, "max_new_tokens": 20}
    stream = llm.stream("Why?", **drawn)
    pieces = list(stream)
    assert len(pieces) > 1
    assert "".join(pieces) == stream.result().text == llm.chat("Why?", **drawn).text


def test_raw_text_goes_as_it_stands(llm: augur.LLM):
    start, end = (llm.tokenizer.token_id(token) for token in ("<|im_start|>", "<|im_end|>"))
    raw, plain = llm.encode("<|im_end|>", raw=True), llm.encode("<|im_end|>")
    assert raw == [end]
    assert plain.count(start) == 2  # the template's own: the user's turn and the answer's
    assert plain.count(end) == 1


def test_a_batch_gives_what_each_prompt_gives_alone(llm: augur.LLM):
    prompts: list[augur.llm.Prompt] = ["Why?", CHAT, "How?"]
    together = llm.batch(prompts, temperature=1.0, seed=2**32 - 1, max_new_tokens=9)
    seeds = (2**32 - 1, 0, 1)
    for prompt, seed, answer in zip(prompts, seeds, together, strict=True):
        alone = llm.chat(prompt, temperature=1.0, seed=seed, max_new_tokens=9)
        assert (answer.text, answer.token_ids) == (alone.text, alone.token_ids)
    assert llm.batch([]) == []


def test_a_prompt_that_cannot_be_answered_stops_a_batch_before_it_begins(
    llm: augur.LLM, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(llm.model, "forward", None)  # to call it would be a TypeError
    with pytest.raises(augur.PromptError, match=r"^prompt 1: it has \d+ tokens, expected 1 to 508"):
        llm.batch(["Why?", "why " * 600], max_new_tokens=4)
    with pytest.raises(augur.PromptError, match=r"^prompt 0: it has 0 tokens"):
        llm.batch([""], raw=True)
    with pytest.raises(augur.PromptError, match=r"^prompt 1: the messages|^prompt 1: messages"):
        llm.batch(["Why?", 5])
    with pytest.raises(augur.PromptError, match=r"^prompt 2: .*surrogate"):
        llm.batch(["Why?", "How?", "\ud800"])


@pytest.mark.parametrize("prompts", ["Why?", None, 5])
def test_a_batch_is_of_a_list(llm: augur.LLM, prompts):
    with pytest.raises(augur.PromptError, match=r"prompts is .*, expected a list of prompts"):
        llm.batch(prompts)


def test_a_context_that_is_no_number_is_refused(llm: augur.LLM):
    with pytest.raises(augur.OptionError, match="context is 'x', expected a number of tokens"):
        llm.conversation(context="x")


def test_a_conversation_remembers(llm: augur.LLM):
    talk = llm.conversation("Be brief.", context=256)
    first = talk.chat("Why?", max_new_tokens=6)
    second = talk.chat("And why that?", max_new_tokens=6)
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "And why that?"},
    ]
    assert second.token_ids == llm.chat(said, max_new_tokens=6).token_ids
    assert [message.role for message in talk.messages][0::2] == ["system", "assistant", "assistant"]


def test_names_choose_device_dtype_and_attention(folder: Path):
    llm = augur.load(folder, device="cpu", dtype="float16")
    assert (llm.model.dtype, llm.attention, llm.model.ops) == (
        torch.float16,
        "eager-f32",
        EAGER_F32,
    )
    assert augur.load(folder, device="cpu", attention="sdpa").model.ops is SDPA


WRONG_LOAD = {
    "device": ({"device": "toaster"}, "device is 'toaster': this machine has"),
    "dtype": ({"dtype": "int8"}, "dtype is 'int8', expected one of float32, bfloat16, float16"),
    "attention": ({"attention": "flash"}, "attention is 'flash', expected one of eager, eager-f32"),
}


@pytest.mark.parametrize("case", WRONG_LOAD)
def test_a_wrong_argument_of_load_is_named_before_the_model_is_looked_for(case: str):
    given, said = WRONG_LOAD[case]
    with pytest.raises(augur.OptionError, match=said):
        augur.load("./nowhere", **given)


WRONG = {
    "a constraint that nothing makes": (
        {"constraint": object()},
        "constraint is .*, expected a function that makes a constraint",
    ),
    "a value": ({"temperature": -1}, "temperature is -1, expected 0 for greedy, or"),
    "draws": ({"top_k": 5}, "top_k is about random draws, and without a temperature nothing is"),
    "together": (
        {"min_new_tokens": 300},
        "min_new_tokens is 300, expected 0 to max_new_tokens, which is 256 unless given",
    ),
    "an id": ({"stop_token_ids": [9999]}, "stop_token_ids names token 9999; the model's"),
    "a bias": ({"logit_bias": {9999: 1}}, "logit_bias names token 9999"),
    "stop strings": ({"stop_strings": 5}, "stop_strings is 5, expected a string or a list"),
    "thinking": ({"thinking": True}, "leaves no choice. Leave thinking out"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_option_is_named_as_python_names_it(llm: augur.LLM, case: str):
    given, said = WRONG[case]
    with pytest.raises(augur.ArgumentError, match=said) as refused:
        llm.chat("Why?", **given)
    assert next(iter(given)).upper() in refused.value.spelled(str.upper)


def test_an_option_that_does_not_exist_is_refused(llm: augur.LLM):
    with pytest.raises(TypeError, match="no option 'max_tokens'; there are max_new_"):
        llm.chat("Why?", max_tokens=5)


def test_none_is_as_good_as_left_out(llm: augur.LLM):
    nothing = dict.fromkeys(augur.Options.__annotations__)
    assert llm.options(**nothing) == llm.options() == augur.GenerationOptions()
    assert llm.options(temperature=0.5).sampling == SamplingParams(temperature=0.5)


class OnlyThese:
    """A constraint that lets some tokens through and keeps what was chosen."""

    def __init__(self, allowed: set[int]) -> None:
        self.allowed, self.accepted = allowed, []

    def mask(self, logits):
        forbidden = [i for i in range(logits.shape[-1]) if i not in self.allowed]
        logits[:, forbidden] = -torch.inf
        return logits

    def accept(self, token_id):
        self.accepted.append(token_id)


def test_each_text_has_a_constraint_of_its_own(llm: augur.LLM):
    made: list[OnlyThese] = []

    def constraint() -> OnlyThese:
        made.append(OnlyThese({70, 71, 72}))
        return made[-1]

    drawn: augur.Options = {"temperature": 1.0, "seed": 3, "max_new_tokens": 12}
    answers = llm.batch(["Why?", "How?"], constraint=constraint, logprobs=0, **drawn)
    assert [one.accepted for one in made] == [answer.token_ids for answer in answers]
    assert all(set(answer.token_ids) <= {70, 71, 72} for answer in answers)
    assert all(len(answer.generation.logprobs) == 12 for answer in answers)


def test_a_replaced_op_is_what_answers(llm: augur.LLM):
    calls = []

    def counted(x, weight, eps):
        calls.append(eps)
        return ops.rms_norm(x, weight, eps)

    ops = llm.model.ops
    llm.model.ops = dataclasses.replace(ops, rms_norm=counted)
    try:
        llm.chat("Why?", max_new_tokens=1)
    finally:
        llm.model.ops = ops
    assert len(calls) == 5  # two a layer, and the last
