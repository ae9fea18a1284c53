"""What a person can ask for beside answers."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from augur.answer import Answer
from augur.errors import ConversationError
from augur.memory import peak_memory_bytes
from augur.messages import Messages, without_system
from augur_apps.chatting.shown import say
from augur_apps.chatting.talk import Talk
from augur_apps.chatting.talk_file import read_talk, resolved, typed_path, write_talk


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        argument: how help writes it; "" takes none, in brackets it may be left out.
        help: one line.
        act: does it; the argument is "" where none was given.
    """

    argument: str
    help: str
    act: Callable[[Talk, str], None]


def obey(talk: Talk, line: str) -> None:
    """Do what a line that begins with / says.

    Raises:
        ConversationError: there is no such command, or it refuses.
        what `Talk.retry` raises.
    """
    name, *rest = line.split(maxsplit=1)
    argument = rest[0].strip() if rest else ""
    command = COMMANDS.get(name)
    if command is None:
        raise ConversationError(
            "there is no command %s, and nothing was sent. /help lists the commands; write "
            "// for a message that begins with /",
            name,
        )
    if argument and not command.argument:
        raise ConversationError("%s takes nothing after it, found %r", name, argument)
    if not argument and command.argument and not command.argument.startswith("["):
        raise ConversationError("%s needs %s after it", name, command.argument)
    command.act(talk, argument)


def go_on_from(talk: Talk, path: Path, messages: Messages) -> None:
    """Take what was read from a file in place of what was said.

    Raises:
        ConversationError: the path leads nowhere.
        TokenizerError: the chat template cannot write it.
    """
    conversation, num_before = talk.conversation, len(talk.conversation.messages)
    file = resolved(path)
    conversation.replace(messages)
    talk.file, talk.last_answer = file, None
    instead = f" in place of {_count(num_before)}" if num_before else ""
    say(f"read {_count(len(messages))} from {path}{instead}; {_length(talk)}")
    if messages and messages[-1].role == "user":
        say("the last message has no answer yet: /retry answers it")


def _system(talk: Talk, argument: str) -> None:
    conversation = talk.conversation
    if not argument:
        system = conversation.system
        say("none was given; the chat template may write its own" if system is None else system)
        return
    conversation.set_system(argument)
    say(f"system message set{_stays(talk)}")


def _no_system(talk: Talk, _argument: str) -> None:
    conversation = talk.conversation
    if conversation.system is None:
        raise ConversationError("there is no system message to remove")
    conversation.set_system(None)
    say(f"system message removed, the chat template may write its own{_stays(talk)}")


def _stays(talk: Talk) -> str:
    if not without_system(talk.conversation.messages):
        return ""
    return "; the conversation stays, and the next turn feeds it again"


def _reset(talk: Talk, _argument: str) -> None:
    num_messages = len(without_system(talk.conversation.messages))
    talk.conversation.reset()
    talk.last_answer = talk.file = None
    stays = "" if talk.conversation.system is None else "; the system message stays"
    say(f"forgot {_count(num_messages)}{stays}")


def _retry(talk: Talk, _argument: str) -> None:
    talk.retry()


def _load(talk: Talk, argument: str) -> None:
    path = typed_path(argument)
    go_on_from(talk, path, read_talk(path))


def _save(talk: Talk, argument: str) -> None:
    path = typed_path(argument)
    _write(talk, path, replace=resolved(path) == talk.file)


def _save_anyway(talk: Talk, argument: str) -> None:
    _write(talk, typed_path(argument), replace=True)


def _write(talk: Talk, path: Path, *, replace: bool) -> None:
    messages = talk.conversation.messages
    write_talk(path, messages, replace=replace)
    talk.file = resolved(path)
    say(f"wrote {_count(len(messages))} to {path}")


def _stats(talk: Talk, _argument: str) -> None:
    say(f"conversation: {_count(len(talk.conversation.messages))}, {_length(talk)}")
    if talk.last_answer is not None:
        say(_last_turn(talk.last_answer))
    cache = f"{talk.conversation.cache_bytes / 1e6:.1f} MB for keys and values"
    peak = peak_memory_bytes(talk.conversation.device)
    say(f"memory: {cache}" if peak is None else f"memory: {cache}, peak {peak / 1e9:.2f} GB")


def _last_turn(answer: Answer) -> str:
    result = answer.result()
    timings, sampling = result.generation.timings, result.generation.sampling
    parts = [
        f"last turn: {answer.num_reused} tokens reused",
        f"{answer.num_prefilled} prefilled at {_rate(timings.prefill_tokens_per_s)}",
        f"{len(result.token_ids)} generated at {_rate(timings.decode_tokens_per_s)}",
        f"first token {timings.ttft_s:.2f} s",
        f"finish: {result.finish_reason or 'stopped'}",
    ]
    if sampling is not None and sampling.seed is not None:
        parts.append(f"seed {sampling.seed}")
    return ", ".join(parts)


def _help(_talk: Talk, _argument: str) -> None:
    rows = {f"{name} {command.argument}": command.help for name, command in COMMANDS.items()}
    rows["//..."] = "a message that begins with /"
    rows["Alt-Enter"] = "a new line in a message; pasted lines stay together"
    rows["Ctrl-C"] = "stop an answer, and keep what was said"
    rows["Ctrl-D"] = "end"
    width = max(map(len, rows))
    say("\n".join(f"{row:<{width}}  {told}" for row, told in rows.items()))


def _exit(talk: Talk, _argument: str) -> None:
    talk.is_over = True


def _length(talk: Talk) -> str:
    return f"{talk.conversation.num_tokens} of {talk.conversation.context} tokens"


def _rate(tokens_per_s: float | None) -> str:
    return "- tokens/s" if tokens_per_s is None else f"{tokens_per_s:.1f} tokens/s"


def _count(num_messages: int) -> str:
    return "1 message" if num_messages == 1 else f"{num_messages} messages"


COMMANDS = {
    "/system": Command("[TEXT]", "show the system message, or set it and keep the rest", _system),
    "/nosystem": Command("", "remove the system message, and keep the rest", _no_system),
    "/reset": Command("", "forget what was said; the system message stays", _reset),
    "/retry": Command("", "answer the last message again, with the next seed", _retry),
    "/save": Command("FILE", "write the conversation to a new file, or to its own", _save),
    "/save!": Command("FILE", "the same, whatever file is there", _save_anyway),
    "/load": Command("FILE", "go on from a conversation in a file", _load),
    "/stats": Command("", "tokens, speed and memory", _stats),
    "/help": Command("", "this list", _help),
    "/exit": Command("", "end", _exit),
}
