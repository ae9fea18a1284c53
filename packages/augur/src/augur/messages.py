"""The messages of a conversation, and which of them belong together."""

from dataclasses import dataclass
from typing import Literal, get_args

from augur.errors import ConversationError

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """What one of them said."""

    role: Role
    content: str


Messages = tuple[Message, ...]
"""At most one system message, which comes first; then user and assistant in turn, user first."""

_MAY_FOLLOW: dict[Role | None, tuple[Role, ...]] = {
    None: ("system", "user"),
    "system": ("user",),
    "user": ("assistant",),
    "assistant": ("user",),
}


def parse_messages(value: object) -> Messages:
    """Messages from parsed JSON: a list of objects with a role and a content.

    Raises:
        ConversationError: it is something else, or the roles do not come in turn.
    """
    if not isinstance(value, list):
        raise ConversationError("messages is %s, expected a list of messages", _kind(value))
    messages = tuple(_parse_message(place, item) for place, item in enumerate(value))
    for place, message in enumerate(messages):
        before = messages[place - 1].role if place else None
        if message.role not in _MAY_FOLLOW[before]:
            expected = " or ".join(_MAY_FOLLOW[before])
            raise ConversationError(
                "messages[%s] has the role %r, expected %s: a system message, if any, comes "
                "first, then user and assistant in turn",
                place,
                message.role,
                expected,
            )
    return messages


def with_system(messages: Messages, content: str) -> Messages:
    """The same with this system message, in place of another if there is one."""
    return (Message("system", content), *without_system(messages))


def without_system(messages: Messages) -> Messages:
    """What user and assistant said."""
    return tuple(message for message in messages if message.role != "system")


def system_of(messages: Messages) -> str | None:
    """The system message."""
    return next((message.content for message in messages if message.role == "system"), None)


def without_oldest_turn(messages: Messages) -> tuple[Messages, Messages]:
    """What is left, and the oldest question with its answer, which went.

    The last message stays, and so does the system message: where there is nothing but these, the
    second is empty.
    """
    first = len(messages) - len(without_system(messages))
    oldest = messages[first : first + 2] if len(messages) - first > 2 else ()
    return messages[:first] + messages[first + len(oldest) :], oldest


def _parse_message(place: int, item: object) -> Message:
    where = f"messages[{place}]"
    if not isinstance(item, dict):
        raise ConversationError("%s is %s, expected an object", where, _kind(item))
    if set(item) != {"role", "content"}:
        raise ConversationError(
            "%s has the keys %s, expected 'content' and 'role' and no others", where, sorted(item)
        )
    if item["role"] not in get_args(Role):
        raise ConversationError(
            "%s has the role %r, expected one of %s", where, item["role"], ", ".join(get_args(Role))
        )
    if not isinstance(item["content"], str):
        raise ConversationError(
            "%s has %s as its content, expected a text", where, _kind(item["content"])
        )
    return Message(item["role"], item["content"])


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "a text", bool: "a bool"}
    return names.get(type(value), "a number")
