"""A conversation as a JSON file: {"messages": [{"role": ..., "content": ...}, ...]}."""

import dataclasses
import json
import os
import stat
from pathlib import Path

from augur.errors import ConversationError
from augur.messages import Messages, parse_messages
from augur_weights import StrictJSONError, parse_json

# Beside OSError: no such user in ~user, links in a circle; a NUL, a surrogate.
_PATH_ERRORS = (OSError, RuntimeError, ValueError)


def typed_path(text: str) -> Path:
    """The path that a person typed, with ~ and ~user for home folders.

    Raises:
        ConversationError: there is no such user.
    """
    try:
        return Path(text).expanduser()
    except _PATH_ERRORS as error:
        raise ConversationError("%s names no file: %s", text, _why(error)) from None


def resolved(path: Path) -> Path:
    """Where a path leads: absolute, all links followed.

    Raises:
        ConversationError: nowhere.
    """
    try:
        return path.resolve()
    except _PATH_ERRORS as error:
        raise ConversationError("%s names no file: %s", path, _why(error)) from None


def write_talk(path: Path, messages: Messages, *, replace: bool = False) -> None:
    """Write the file whole or not at all.

    Args:
        path: a link is followed.
        messages: what to write.
        replace: whether a file that is there may be replaced; its mode stays.

    Raises:
        ConversationError: the file is there, or cannot be written.
    """
    target = resolved(path)
    talk = {"messages": [dataclasses.asdict(message) for message in messages]}
    text = json.dumps(talk, ensure_ascii=False, indent=2) + "\n"
    try:
        mode = _mode_of(target)
        if mode is not None and not replace:
            raise ConversationError(
                "%s exists, and this conversation is not from there; nothing was written. "
                "/save! %s replaces it",
                path,
                path,
            )
        if mode is not None and not stat.S_ISREG(mode):
            raise ConversationError("%s is no file that can be replaced", path)
        _write_whole(target, text, mode)
    except ConversationError:
        raise
    except _PATH_ERRORS as error:
        raise ConversationError("%s cannot be written: %s", path, _why(error)) from None


def read_talk(path: Path) -> Messages:
    """Read what `write_talk` wrote.

    Raises:
        ConversationError: the file cannot be read, or is something else.
    """
    try:
        content = path.read_bytes()
    except _PATH_ERRORS as error:
        raise ConversationError("%s cannot be read: %s", path, _why(error)) from None
    try:
        talk = parse_json(content.decode("utf-8-sig"))  # some editors begin a file with a BOM
    except UnicodeDecodeError as error:
        raise ConversationError("%s is not JSON in UTF-8: %s", path, error) from None
    except StrictJSONError as error:
        raise ConversationError("%s %s", path, error) from None
    if not isinstance(talk, dict) or "messages" not in talk:
        raise ConversationError(
            '%s holds no conversation, which is an object {{"messages": [...]}}', path
        )
    try:
        return parse_messages(talk["messages"])
    except ConversationError as error:
        raise ConversationError("%s: %s", path, error) from None


def _mode_of(path: Path) -> int | None:
    """Kind and permissions of what is there; None where nothing is."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _write_whole(target: Path, text: str, mode: int | None) -> None:
    beside = target.with_name(f".augur-{os.getpid()}.tmp")  # short, however long the other name is
    try:
        with beside.open("x", encoding="utf-8") as file:
            if mode is not None:
                beside.chmod(stat.S_IMODE(mode))  # before there is anything to read
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _why(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
