"""Messages, tools and variables, checked and made plain before a template sees them."""

from collections.abc import Mapping, Sequence
from typing import Any

from augur_files import shown
from augur_tok.arguments import checked_text
from augur_tok.errors import ChatTemplateError, TokenizerError

# Names that transformers' apply_chat_template takes as options of its own. As template variables
# they would do nothing, so they are refused.
NOT_VARIABLES = frozenset(
    {
        "chat_template",
        "continue_final_message",
        "max_length",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "sanitize_control_tokens",
        "tokenize",
        "tokenizer_kwargs",
        "truncation",
    }
)

# Deeper than any schema, and well within what Python recurses.
MAX_DEPTH = 64

# The keys under which APIs pass an assistant's reasoning; the first is what templates read.
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")


def plain_messages(messages: object) -> list[dict[str, Any]]:
    """The messages as new plain dicts, without keys that are None.

    Raises:
        ChatTemplateError: not a list of messages, each with a text `role` and a `content`.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise ChatTemplateError(
            f"messages is a {type(messages).__name__}, expected a list of dicts such as "
            '[{"role": "user", "content": "Hello"}].'
        )
    if not messages:
        raise ChatTemplateError("messages is empty, expected at least one message.")
    return [_plain_message(f"messages[{place}]", message) for place, message in enumerate(messages)]


def plain_tools(tools: object) -> list[Any] | None:
    """The tools as new plain dicts, or None.

    Raises:
        ChatTemplateError: not a list of JSON schemas (dicts).
    """
    if tools is None:
        return None
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
        raise ChatTemplateError(f"tools is a {type(tools).__name__}, expected a list of dicts.")
    for place, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise ChatTemplateError(
                f"tools[{place}] is a {type(tool).__name__}, expected its JSON schema as a dict; "
                "functions are not turned into schemas."
            )
    return [plain_data(f"tools[{place}]", tool) for place, tool in enumerate(tools)]


def plain_variables(variables: Mapping[str, object]) -> dict[str, Any]:
    """Further template variables (such as Qwen3's `enable_thinking`) as plain data.

    Raises:
        ChatTemplateError: a name that is not a template variable, or a value that is not plain.
    """
    for name in variables:
        if name in NOT_VARIABLES:
            raise ChatTemplateError(f"{name} is an option of transformers that augur lacks.")
    return {name: plain_data(name, value) for name, value in variables.items()}


def plain_data(where: str, value: object, depth: int = 0) -> Any:
    """A copy made of JSON's types alone, so that a template can reach no object's methods.

    Raises:
        ChatTemplateError: a value of another type, nested too deeply, or with a lone surrogate;
            `where` names it.
    """
    if depth > MAX_DEPTH:
        raise ChatTemplateError(
            f"{where[:80]}... is nested more than {MAX_DEPTH} deep. Hand over less, or as text."
        )
    if value is None or isinstance(value, bool):
        return value
    # A subclass (an enum, say) may print as something else: its plain value is what counts.
    if isinstance(value, str):
        return _plain_text(where, str.__str__(value))
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return {
            plain_data(f"{where}, a key", key, depth + 1): plain_data(
                f"{where}[{shown(key)}]", item, depth + 1
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        items = [
            plain_data(f"{where}[{place}]", item, depth + 1) for place, item in enumerate(value)
        ]
        return items if isinstance(value, list) else tuple(items)
    raise ChatTemplateError(
        f"{where} is a {type(value).__name__}, expected text, a number, a bool, None, a list or a "
        "dict. Convert it first."
    )


def _plain_text(where: str, text: str) -> str:
    try:
        return checked_text(text)
    except TokenizerError as error:
        raise ChatTemplateError(f"{where}: {error}") from None


def _plain_message(where: str, message: object) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise ChatTemplateError(
            f"{where} is a {type(message).__name__}, expected a dict with role and content."
        )
    # Some APIs write a missing content or tool call as None, which templates would print.
    plain = {
        key: plain_data(f"{where}[{shown(key)}]", value)
        for key, value in message.items()
        if value is not None
    }
    if not isinstance(plain.get("role"), str):
        raise ChatTemplateError(
            f"{where} has the role {shown(plain.get('role'))}, expected a text such as 'user'."
        )
    _check_content(where, plain)
    reasoning = next((plain[key] for key in REASONING_KEYS if key in plain), None)
    if reasoning is not None:
        plain = {"thinking": reasoning, **plain, "reasoning_content": reasoning}
    return plain


def _check_content(where: str, message: Mapping[str, Any]) -> None:
    content = message.get("content")
    if content is None and message.get("tool_calls"):
        return
    is_blocks = isinstance(content, list) and all(isinstance(item, dict) for item in content)
    if not isinstance(content, str) and not is_blocks:
        raise ChatTemplateError(
            f"{where} (role {shown(message['role'])}) has the content {shown(content)}, "
            "expected a text or a list of content blocks (dicts); only a message with tool_calls "
            "may lack it."
        )
