"""A context that is full: refused with what to do, or the oldest turns go, and it is said which."""

import pytest

from augur.conversation import DEFAULT_CONTEXT, Conversation
from augur.errors import ContextFullError, ConversationError, OptionError
from augur.llm import LLM
from augur.messages import Message
from augur.options import GenerationOptions
from augur_apps.chatting.talk import Talk
from chat_turns import ask, fresh_answer, fresh_ids, only

SYSTEM = "Be brief."
TEXTS = ("one", "two", "three", "four")
NEW = 8


@pytest.fixture
def options(engine: LLM) -> GenerationOptions:
    return GenerationOptions(NEW, only(engine, "0123456789"))


def length_with(engine: LLM, conversation: Conversation, text: str) -> int:
    """Tokens of the prompt that this text makes."""
    told = [*map(vars, conversation.messages), {"role": "user", "content": text}]
    return len(fresh_ids(engine.tokenizer, told))


@pytest.fixture
def three_turns(engine: LLM, options: GenerationOptions) -> tuple[Message, ...]:
    conversation = Conversation(engine, 1024)
    conversation.set_system(SYSTEM)
    for text in TEXTS[:3]:
        ask(conversation, text, options)
    return conversation.messages


def full(engine: LLM, messages: tuple[Message, ...], context: int, **more: str) -> Conversation:
    conversation = Conversation(engine, context, **more)
    conversation.replace(messages)
    return conversation


def needed(engine: LLM, messages: tuple[Message, ...]) -> int:
    return length_with(engine, full(engine, messages, 1024), "four") + NEW


def test_a_turn_that_just_fits_is_taken_and_one_token_more_is_refused(
    engine: LLM, options: GenerationOptions, three_turns: tuple[Message, ...]
):
    fits = needed(engine, three_turns)
    ask(full(engine, three_turns, fits), "four", options)

    conversation = full(engine, three_turns, fits - 1)
    with pytest.raises(ContextFullError) as refused, conversation.ask("four", options):
        pass
    assert conversation.messages == three_turns
    for said in (f"{fits - NEW} tokens long", f"{NEW} more", f"holds {fits - 1}", "reset"):
        assert said in str(refused.value)
    for said in ("context (", "4096 positions", "max_new_tokens", "when_full drop"):
        assert said in str(refused.value)


def test_after_a_reset_the_talk_goes_on(
    engine: LLM, options: GenerationOptions, three_turns: tuple[Message, ...]
):
    conversation = full(engine, three_turns, needed(engine, three_turns) - 1)
    conversation.reset()
    assert conversation.messages == (Message("system", SYSTEM),)
    ask(conversation, "four", options)
    assert len(conversation.messages) == 3


@pytest.mark.parametrize("num_dropped", [1, 2])
def test_drop_leaves_out_no_more_turns_than_it_must(
    engine: LLM, options: GenerationOptions, three_turns: tuple[Message, ...], num_dropped: int
):
    system, *said = three_turns
    kept = (system, *said[2 * num_dropped :])
    conversation = full(engine, three_turns, needed(engine, kept), when_full="drop")
    answer = ask(conversation, "four", options)
    assert answer.dropped == tuple(said[: 2 * num_dropped])
    assert conversation.messages[:-1] == (*kept, Message("user", "four"))
    told = [vars(message) for message in conversation.messages[:-1]]
    assert answer.prompt_token_ids == fresh_ids(engine.tokenizer, told)
    assert answer.result().token_ids == fresh_answer(engine, told, options).token_ids


def test_many_turns_go_on_in_a_small_context(engine: LLM, options: GenerationOptions):
    conversation = Conversation(engine, 160, when_full="drop")
    dropped = [len(ask(conversation, text, options).dropped) for text in TEXTS * 3]
    assert dropped[0] == 0
    assert all(number % 2 == 0 for number in dropped)
    assert sum(dropped) + len(conversation.messages) == 2 * len(dropped)
    assert conversation.num_tokens <= 160


def test_the_program_says_what_was_dropped(
    engine: LLM,
    options: GenerationOptions,
    three_turns: tuple[Message, ...],
    capsys: pytest.CaptureFixture[str],
):
    system, *said = three_turns
    context = needed(engine, (system, *said[2:]))
    talk = Talk(full(engine, three_turns, context, when_full="drop"), options, is_interactive=False)
    talk.send("four")
    out, err = capsys.readouterr()
    assert out == talk.conversation.messages[-1].content + "\n"
    told = "the context is full: dropped the 2 oldest messages\n"
    assert told + f"  user: one\n  assistant: {said[1].content}\n" in err


def test_a_message_that_is_too_long_alone_drops_nothing(
    engine: LLM, options: GenerationOptions, three_turns: tuple[Message, ...]
):
    conversation = full(engine, three_turns, 200, when_full="drop")
    with pytest.raises(ContextFullError, match="without its older turns"):
        ask(conversation, "word " * 60, options)
    assert conversation.messages == three_turns


def test_a_turn_that_was_stopped_before_its_first_token_drops_nothing(
    engine: LLM, options: GenerationOptions, three_turns: tuple[Message, ...]
):
    context = needed(engine, three_turns) - 1
    conversation = full(engine, three_turns, context, when_full="drop")
    with conversation.ask("four", options) as answer:
        assert len(answer.dropped) == 2
    assert conversation.messages == three_turns


def test_the_context_is_the_positions_or_less(engine: LLM):
    assert Conversation(engine).context == DEFAULT_CONTEXT == 4096
    for context in (0, 4097):
        with pytest.raises(OptionError, match="expected from 1 to 4096"):
            Conversation(engine, context)


def test_an_answer_as_long_as_the_context_is_refused_before_the_first_turn(engine: LLM):
    conversation = Conversation(engine, 64)
    conversation.check_options(GenerationOptions(63))
    with pytest.raises(ConversationError, match="max_new_tokens is 64"):
        conversation.check_options(GenerationOptions(64))
