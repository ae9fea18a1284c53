"""A conversation as a JSON file: {"messages": [{"role": ..., "content": ...}, ...]}."""

import dataclasses
import json
import os
from pathlib import Path

from chatting.errors import ConversationError
from chatting.messages import Messages, parse_messages


def write_talk(path: Path, messages: Messages, *, replace: bool = False) -> None:
    """Write the file whole or not at all.

    Args:
        path: a link is followed.
        messages: what to write.
        replace: whether a file that is there may be replaced.

    Raises:
        ConversationError: the file is there, or cannot be written.
    """
    target = path.resolve()
    if target.exists() and not replace:
        raise ConversationError(
            f"{path} exists, and this conversation is not from there; nothing was written. "
            f"/save! {path} replaces it"
        )
    if target.exists() and not target.is_file():
        raise ConversationError(f"{path} is no file that can be replaced")
    talk = {"messages": [dataclasses.asdict(message) for message in messages]}
    text = json.dumps(talk, ensure_ascii=False, indent=2) + "\n"
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, UnicodeEncodeError) as error:
        raise ConversationError(f"{path} cannot be written: {error}") from None


def read_talk(path: Path) -> Messages:
    """Read what `write_talk` wrote.

    Raises:
        ConversationError: the file cannot be read, or is something else.
    """
    try:
        talk = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConversationError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConversationError(f"{path} is not JSON in UTF-8: {error}") from None
    if not isinstance(talk, dict) or "messages" not in talk:
        raise ConversationError(
            f'{path} holds no conversation, which is an object {{"messages": [...]}}'
        )
    try:
        return parse_messages(talk["messages"])
    except ConversationError as error:
        raise ConversationError(f"{path}: {error}") from None
