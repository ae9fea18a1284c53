"""A conversation over one cache equals fresh runs, and feeds only what is new."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from augur.conversation import Conversation, common_prefix_length
from augur.errors import PromptError
from augur.llm import LLM
from augur.messages import Message
from augur.options import GenerationOptions
from augur_gen import SamplingParams
from augur_tok import Tokenizer
from chat_turns import TEXTS, ask, fed_lengths, fresh_answers, fresh_ids, only, write_chatty

DIGITS = "0123456789"
BYTES = GenerationOptions(max_new_tokens=12)  # the raw argmax: bytes that are mostly no UTF-8


# Says before an answer that there were no thoughts, and does not repeat it later, as Qwen3's does.
THINKS = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% if enable_thinking is defined and not enable_thinking %}{{ '<no thoughts>' }}{% endif %}"
    "{% endif %}"
)


def digits(engine: LLM, max_new_tokens: int = 12, **changes: object) -> GenerationOptions:
    return GenerationOptions(max_new_tokens, only(engine, DIGITS, **changes))


# Writes of earlier answers only what comes after their last 6, as Qwen3's does with thoughts.
LOOKS_BACK = (
    "{% for message in messages %}"
    "{% set content = message.content %}"
    "{% if message.role == 'assistant' %}{% set content = content.split('6')[-1] %}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def test_five_turns_give_the_tokens_of_five_fresh_runs_and_feed_only_what_is_new(engine: LLM):
    options = digits(engine)
    fresh = fresh_answers(engine, TEXTS, options)
    conversation = Conversation(engine, 1024)
    lengths = []
    for text, expected in zip(TEXTS, fresh, strict=True):
        with fed_lengths(engine.model) as fed:
            answer = ask(conversation, text, options)
        assert answer.result().token_ids == expected.token_ids
        assert answer.result().finish_reason == expected.finish_reason
        # All but the last token of an answer are fed again, one by one.
        assert fed[1:] == [1] * (len(expected.token_ids) - 1)
        assert (
            fed[0] == answer.num_prefilled == answer.result().generation.timings.num_prompt_tokens
        )
        lengths.append(fed[0])

    # What the template adds for a turn: the former answer's end, and the new text. An answer that
    # was cut ends with a token that was chosen and never fed.
    new = [f"<|im_start|>user\n{TEXTS[0]}<|im_end|>\n<|im_start|>assistant\n"]
    new += [
        f"<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
        for text in TEXTS[1:]
    ]
    tokenizer = engine.tokenizer
    # The last text spells <|im_end|>, which there is plain text.
    plain = len(tokenizer.encode("<|im_end|>")) - 1
    expected_lengths = [len(tokenizer.encode(text, allow_special=True)) for text in new]
    expected_lengths[-1] += plain
    was_cut = [False] + [result.finish_reason == "length" for result in fresh[:-1]]
    assert lengths == [n + cut for n, cut in zip(expected_lengths, was_cut, strict=True)]
    assert set(was_cut) == {False, True}
    assert "eos" in {result.finish_reason for result in fresh}


def check_turns(engine: LLM, options: GenerationOptions) -> list[bool]:
    """Check five turns and what they feed; tell of each answer whether all of it was reused."""
    fresh = fresh_answers(engine, TEXTS, options)
    conversation = Conversation(engine, 2048)
    messages: list[dict[str, str]] = []
    cached: list[int] = []
    wholly_reused = []
    for text, expected in zip(TEXTS, fresh, strict=True):
        messages.append({"role": "user", "content": text})
        token_ids = fresh_ids(engine.tokenizer, messages)
        shared = common_prefix_length(cached, token_ids)
        wholly_reused.append(shared == len(cached))
        with fed_lengths(engine.model) as fed:
            answer = ask(conversation, text, options)
        assert answer.prompt_token_ids == token_ids
        assert answer.result().token_ids == expected.token_ids
        assert sum(fed) == len(token_ids) - shared + len(expected.token_ids) - 1
        cached = token_ids + expected.token_ids[:-1]
        said = engine.tokenizer.decode(expected.token_ids, skip_special_tokens=True)
        messages.append({"role": "assistant", "content": said})
        assert conversation.messages[-1] == Message("assistant", said)
    return wholly_reused[1:]


def test_answers_that_are_cut_into_other_tokens_than_those_generated_are_fed_again(engine: LLM):
    assert False in check_turns(engine, BYTES)


def test_a_template_that_rewrites_earlier_answers_is_followed(
    tmp_path: Path, load_engine: Callable[[Path], LLM]
):
    engine = load_engine(write_chatty(tmp_path / "looks-back", chat_template=LOOKS_BACK))
    assert False in check_turns(engine, digits(engine))


def test_thoughts_that_the_template_leaves_out_later_are_not_taken_from_the_cache(
    tmp_path: Path, load_engine: Callable[[Path], LLM]
):
    engine = load_engine(write_chatty(tmp_path / "thinks", chat_template=THINKS))
    conversation = Conversation(engine, 1024, thinking=False)
    first = ask(conversation, "Hello", digits(engine))
    opening = engine.tokenizer.decode(first.prompt_token_ids).partition("assistant\n")[2]
    assert opening == "<no thoughts>"
    second = ask(conversation, "Again", digits(engine))
    told = [vars(message) for message in conversation.messages[:-1]]
    expected = engine.tokenizer.encode_chat(told, enable_thinking=False)
    assert second.prompt_token_ids == expected
    assert second.num_reused == len(first.prompt_token_ids) - len(engine.tokenizer.encode(opening))


def test_the_prompt_may_be_fed_in_chunks(engine: LLM, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(LLM.generate.__kwdefaults__, "chunk_size", 7)
    assert all(check_turns(engine, digits(engine)))


def test_a_template_is_asked_once_whether_thinking_is_a_choice(
    tmp_path: Path, load_engine: Callable[[Path], LLM], monkeypatch: pytest.MonkeyPatch
):
    engine = load_engine(write_chatty(tmp_path / "asked", chat_template=THINKS))
    asked = []
    write = Tokenizer.apply_chat_template
    monkeypatch.setattr(
        Tokenizer, "apply_chat_template", lambda *a, **k: asked.append(k) or write(*a, **k)
    )
    conversation = Conversation(engine, 1024, thinking=False)
    ask(conversation, "Hello", digits(engine))
    ask(conversation, "Again", digits(engine))
    assert asked == [{"enable_thinking": True}, {"enable_thinking": False}]


def test_a_template_without_a_choice_about_thinking_refuses_one(engine: LLM):
    with pytest.raises(PromptError, match="leaves no choice"):
        Conversation(engine, 512, thinking=True)


def test_a_repetition_penalty_counts_what_the_cache_holds(engine: LLM):
    penalised = digits(engine, repetition_penalty=1.7)
    plain = fresh_answers(engine, TEXTS, digits(engine))
    assert [r.token_ids for r in fresh_answers(engine, TEXTS, penalised)] != [
        r.token_ids for r in plain
    ]
    assert all(check_turns(engine, penalised))


def test_one_seed_draws_what_fresh_runs_draw(engine: LLM):
    drawn = digits(engine, temperature=0.8, top_p=0.9, seed=7)
    assert all(check_turns(engine, drawn))
    assert check_turns(engine, GenerationOptions(12, SamplingParams(top_k=40, seed=3)))


def test_the_same_message_again_feeds_one_token(engine: LLM):
    options = digits(engine)
    conversation = Conversation(engine, 512)
    first = ask(conversation, "Hello", options)
    conversation.reset()
    again = ask(conversation, "Hello", options)
    assert again.num_prefilled == 1
    assert again.result().token_ids == first.result().token_ids


def test_another_system_message_feeds_the_conversation_again(engine: LLM):
    options = digits(engine)
    conversation = Conversation(engine, 512)
    ask(conversation, "Hello", options)
    conversation.set_system("Be brief.")
    assert conversation.system == "Be brief."
    answer = ask(conversation, "And now?", options)
    assert answer.num_reused == 1  # <|im_start|>
    told = [vars(message) for message in conversation.messages[:-1]]
    assert [message["role"] for message in told] == ["system", "user", "assistant", "user"]
    assert answer.prompt_token_ids == fresh_ids(engine.tokenizer, told)
    conversation.set_system("Be long.")
    assert [message.role for message in conversation.messages].count("system") == 1


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [
        ([], [], 0),
        ([1, 2], [], 0),
        ([1, 2], [1, 2, 3], 2),
        ([1, 2, 3], [1, 9, 3], 1),
        ([5], [6], 0),
    ],
)
def test_a_common_prefix_ends_at_the_first_difference(
    first: list[int], second: list[int], length: int
):
    assert common_prefix_length(first, second) == length


def test_the_memory_is_that_of_the_contexts_tokens(engine: LLM):
    conversation = Conversation(engine, 100)
    config = engine.model.config
    numbers = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    assert conversation.cache_bytes == 100 * numbers * torch.float32.itemsize
