"""An answer that is left before its end, and what comes after it."""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import pytest
import torch

from augur.conversation import Conversation
from augur.errors import ConversationError
from augur.llm import LLM, PREFILL_CHUNK
from augur.messages import Message
from augur.options import GenerationOptions
from augur_apps.chatting.talk import Talk
from augur_gen import GenerationError, SamplingParams
from chat_turns import ask, fresh_answer, only

QUESTION = Message("user", "Count.")
AtForwardPass = Callable[[int, Callable[[], object]], AbstractContextManager[None]]


def break_off() -> None:
    raise KeyboardInterrupt


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def options(engine: LLM) -> GenerationOptions:
    return GenerationOptions(12, only(engine, "0123456789"))


@pytest.fixture
def conversation(engine: LLM) -> Conversation:
    return Conversation(engine, 1024)


def check_goes_on(engine: LLM, conversation: Conversation, options: GenerationOptions) -> None:
    """The next turn is what a fresh run over the same messages gives."""
    text = "Go on."
    told = [*map(vars, conversation.messages), {"role": "user", "content": text}]
    expected = fresh_answer(engine, told, options)
    assert ask(conversation, text, options).result().token_ids == expected.token_ids


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_a_stopped_answer_is_kept_as_far_as_it_came(
    engine: LLM, conversation: Conversation, options: GenerationOptions, num_tokens: int
):
    whole = fresh_answer(engine, [vars(QUESTION)], options)
    with conversation.ask(QUESTION.content, options) as answer:
        heard = ""
        for piece in answer:
            heard += piece
            if len(heard) == num_tokens:
                answer.stop()
    assert answer.result().finish_reason is None
    assert answer.result().token_ids == whole.token_ids[:num_tokens]
    assert heard == engine.tokenizer.decode(whole.token_ids[:num_tokens])
    assert conversation.messages == (QUESTION, Message("assistant", heard))
    check_goes_on(engine, conversation, options)


def test_what_a_stop_string_held_back_is_released_when_the_answer_is_stopped(
    engine: LLM, conversation: Conversation, options: GenerationOptions
):
    whole = fresh_answer(engine, [vars(QUESTION)], options)
    first, second = engine.tokenizer.decode(whole.token_ids[:2])
    third = engine.tokenizer.decode(whole.token_ids[2:3])
    waits = GenerationOptions(12, options.sampling, stop_strings=(f"{second}{third}!",))
    with conversation.ask(QUESTION.content, waits) as answer:
        pieces = [next(answer)]
        answer.stop()
        pieces += answer
    assert "".join(pieces) == conversation.messages[-1].content == first


def test_a_block_left_by_an_error_keeps_what_was_said(
    engine: LLM, conversation: Conversation, options: GenerationOptions
):
    with suppress(KeyboardInterrupt), conversation.ask("Count.", options) as answer:
        said = next(answer) + next(answer)
        raise KeyboardInterrupt
    assert conversation.messages == (QUESTION, Message("assistant", said))
    check_goes_on(engine, conversation, options)


@pytest.mark.parametrize("forward_pass", [1, 2, 4], ids=["prefill", "first decode", "third decode"])
def test_a_forward_pass_that_broke_off_leaves_a_sound_cache(
    engine: LLM,
    conversation: Conversation,
    options: GenerationOptions,
    forward_pass: int,
    at_forward_pass: AtForwardPass,
):
    ask(conversation, "Hello", options)
    before = conversation.messages
    with (
        at_forward_pass(forward_pass, break_off),
        pytest.raises(KeyboardInterrupt),
        conversation.ask("Count.", options) as answer,
    ):
        list(answer)
    num_tokens = forward_pass - 1
    assert len(answer.result().token_ids) == num_tokens
    if num_tokens == 0:
        assert conversation.messages == before, "a turn without a token is no turn"
    else:
        assert conversation.messages[:-1] == (*before, QUESTION)
        assert len(conversation.messages[-1].content) == num_tokens
    check_goes_on(engine, conversation, options)


def test_what_a_stop_string_held_back_when_a_forward_pass_broke_off_was_said(
    engine: LLM,
    conversation: Conversation,
    options: GenerationOptions,
    at_forward_pass: AtForwardPass,
):
    said = engine.tokenizer.decode(fresh_answer(engine, [vars(QUESTION)], options).token_ids[:2])
    waits = GenerationOptions(12, options.sampling, stop_strings=(f"{said[1]}!",))
    with (
        at_forward_pass(3, break_off),
        suppress(KeyboardInterrupt),
        conversation.ask(QUESTION.content, waits) as answer,
    ):
        list(answer)
    assert conversation.messages[-1] == Message("assistant", said)


def test_chunks_that_were_fed_before_a_stop_are_not_fed_again(
    engine: LLM, options: GenerationOptions, at_forward_pass: AtForwardPass
):
    conversation = Conversation(engine, 4096)
    text = "A long message. " * 200
    with (
        at_forward_pass(3, break_off),
        pytest.raises(KeyboardInterrupt),
        conversation.ask(text, options) as answer,
    ):
        list(answer)
    assert conversation.messages == ()
    assert ask(conversation, text, options).num_reused == 2 * PREFILL_CHUNK


def test_options_that_leave_no_choice_are_an_error_and_change_nothing(
    engine: LLM, conversation: Conversation
):
    nothing = SamplingParams(
        temperature=0, logit_bias=dict.fromkeys(range(engine.model.config.vocab_size), -torch.inf)
    )
    with (
        pytest.raises(GenerationError),
        conversation.ask("Hello", GenerationOptions(4, nothing)) as answer,
    ):
        next(answer)
    assert conversation.messages == ()


def test_an_answer_of_nothing_but_its_end_is_an_answer(engine: LLM, conversation: Conversation):
    options = GenerationOptions(4, only(engine, ""))
    assert ask(conversation, "Hello", options).result().finish_reason == "eos"
    assert conversation.messages[-1] == Message("assistant", "")
    check_goes_on(engine, conversation, options)


def test_an_unanswered_message_takes_no_other_after_it(
    conversation: Conversation, options: GenerationOptions
):
    conversation.replace((QUESTION,))
    refused = pytest.raises(ConversationError, match="retry answers it")
    with refused, conversation.ask("Hello", options):
        pass
    with conversation.retry(options) as answer:
        said = "".join(answer)
    assert conversation.messages == (QUESTION, Message("assistant", said))


def test_ctrl_c_ends_an_answer_with_the_token_under_way(
    engine: LLM,
    conversation: Conversation,
    options: GenerationOptions,
    capsys: pytest.CaptureFixture[str],
    at_forward_pass: AtForwardPass,
):
    before = signal.getsignal(signal.SIGINT)
    whole = fresh_answer(engine, [vars(QUESTION)], options)
    talk = Talk(conversation, options, is_interactive=True)
    with at_forward_pass(2, press_ctrl_c):
        talk.send(QUESTION.content)
    out, err = capsys.readouterr()
    assert out == engine.tokenizer.decode(whole.token_ids[:2]) + "\n"
    assert err == "stopped; what was said is kept\n"
    assert talk.last_answer.result().token_ids == whole.token_ids[:2]
    assert signal.getsignal(signal.SIGINT) == before
    check_goes_on(engine, conversation, options)


def test_ctrl_c_before_the_first_token_takes_the_message_back(
    conversation: Conversation,
    options: GenerationOptions,
    capsys: pytest.CaptureFixture[str],
    at_forward_pass: AtForwardPass,
):
    talk = Talk(conversation, options, is_interactive=True)
    with at_forward_pass(1, press_ctrl_c):
        talk.send(QUESTION.content)
    assert capsys.readouterr() == (
        "",
        "stopped before the first token; the message was taken back\n",
    )
    assert conversation.messages == ()
    assert talk.last_answer is None


@pytest.mark.parametrize("forward_pass", [1, 2])
def test_where_nobody_is_there_ctrl_c_ends_the_program(
    conversation: Conversation,
    options: GenerationOptions,
    forward_pass: int,
    at_forward_pass: AtForwardPass,
):
    with at_forward_pass(forward_pass, press_ctrl_c), pytest.raises(KeyboardInterrupt):
        Talk(conversation, options, is_interactive=False).send(QUESTION.content)
