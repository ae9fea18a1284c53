"""Another answer to the same message."""

import signal
from collections.abc import Callable

import pytest

from augur.answer import Answer
from augur.conversation import Conversation
from augur.errors import ConversationError
from augur.llm import LLM
from augur.messages import Message
from augur.options import GenerationOptions
from augur_apps.chatting.talk import Talk
from chat_turns import ask, fresh_answer, only


@pytest.fixture
def conversation(engine: LLM) -> Conversation:
    return Conversation(engine, 1024)


def drawn(engine: LLM, **changes: object) -> GenerationOptions:
    return GenerationOptions(12, only(engine, "0123456789", temperature=1.5, **changes))


def retry(conversation: Conversation, options: GenerationOptions) -> Answer:
    with conversation.retry(options) as answer:
        list(answer)
    return answer


def test_the_last_answer_gives_way_to_what_a_fresh_run_with_that_seed_says(
    engine: LLM, conversation: Conversation
):
    first = ask(conversation, "Count.", drawn(engine, seed=1))
    again = retry(conversation, drawn(engine, seed=2))
    expected = fresh_answer(engine, [{"role": "user", "content": "Count."}], drawn(engine, seed=2))
    assert again.result().token_ids == expected.token_ids != first.result().token_ids
    assert conversation.messages == (
        Message("user", "Count."),
        Message("assistant", again.result().text),
    )
    assert again.num_prefilled == 1


def test_there_is_nothing_to_retry_before_the_first_message(
    engine: LLM, conversation: Conversation
):
    conversation.set_system("Be brief.")
    with pytest.raises(ConversationError, match="nothing to retry"):
        retry(conversation, drawn(engine))
    assert conversation.messages == (Message("system", "Be brief."),)


def test_a_retry_without_a_token_keeps_the_former_answer(engine: LLM, conversation: Conversation):
    ask(conversation, "Count.", drawn(engine))
    before = conversation.messages
    with conversation.retry(drawn(engine)):
        pass
    assert conversation.messages == before


@pytest.mark.parametrize("seed", [None, 2**32 - 1])
def test_the_program_retries_with_the_next_seed(
    engine: LLM, conversation: Conversation, seed: int | None
):
    talk = Talk(conversation, drawn(engine, seed=seed), is_interactive=False)
    talk.send("Count.")
    seeds = [talk.last_answer.result().generation.sampling.seed]
    for _ in range(2):
        talk.retry()
        seeds.append(talk.last_answer.result().generation.sampling.seed)
    assert seeds == [(seeds[0] + n) % 2**32 for n in range(3)]
    if seed is not None:
        assert seeds == [2**32 - 1, 0, 1]


def greedy_talk(engine: LLM, conversation: Conversation, **changes: float) -> Talk:
    options = GenerationOptions(12, only(engine, "0123456789"), **changes)
    return Talk(conversation, options, is_interactive=True)


def test_a_greedy_retry_says_before_the_answer_that_it_changes_nothing(
    engine: LLM,
    conversation: Conversation,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("augur_apps.chatting.talk.say", print)
    monkeypatch.setattr("augur_apps.chatting.talk._NOTES", {})
    talk = greedy_talk(engine, conversation)
    talk.send("Count.")
    for _ in range(2):
        talk.retry()
    first, *rest = capsys.readouterr().out.splitlines()
    note = "nothing is drawn at random without --temperature: expect the same answer again"
    assert rest == [note, first] * 2


def load_unanswered(talk: Talk) -> None:
    talk.conversation.replace((Message("user", "Count."),))


def load_answered(talk: Talk) -> None:
    talk.conversation.replace((Message("user", "Count."), Message("assistant", "1 2 3")))


def change_system(talk: Talk) -> None:
    talk.send("Count.")
    talk.conversation.set_system("Be brief.")


def stop_by_ctrl_c(talk: Talk) -> None:
    first = talk.conversation._llm.model.model.layers[1]
    passes = iter((False, True))

    def press(*_arguments: object) -> None:
        if next(passes, False):
            signal.raise_signal(signal.SIGINT)

    handle = first.register_forward_pre_hook(press)
    talk.send("Count.")
    handle.remove()
    assert talk.last_answer.result().finish_reason is None


@pytest.mark.parametrize("before", [load_unanswered, load_answered, change_system, stop_by_ctrl_c])
def test_a_greedy_retry_promises_nothing_where_the_answer_may_be_another(
    engine: LLM,
    conversation: Conversation,
    capsys: pytest.CaptureFixture[str],
    before: Callable[[Talk], None],
):
    talk = greedy_talk(engine, conversation)
    before(talk)
    talk.retry()
    assert "expect the same" not in capsys.readouterr().err
    talk.retry()
    assert "expect the same" in capsys.readouterr().err


def test_what_the_clock_cut_may_be_cut_elsewhere(
    engine: LLM, conversation: Conversation, capsys: pytest.CaptureFixture[str]
):
    talk = greedy_talk(engine, conversation, max_time_s=1e-9)
    talk.send("Count.")
    talk.retry()
    assert talk.last_answer.result().finish_reason == "time"
    assert "expect the same" not in capsys.readouterr().err
