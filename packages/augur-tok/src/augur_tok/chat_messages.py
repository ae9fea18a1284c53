"""Messages, tools and variables, checked and made plain before a template sees them."""

from collections.abc import Mapping, Sequence
from typing import Any

from augur_files import shown
from augur_tok.arguments import checked_text
from augur_tok.errors import ChatTemplateError, TokenizerError

# Names that transformers' apply_chat_template takes as options of its own. As template variables
# they would do nothing, so they are refused.
NOT_VARIABLES = (
    "chat_template", "continue_final_message", "max_length", "padding",
    "return_assistant_tokens_mask", "return_dict", "return_tensors", "sanitize_control_tokens",
    "tokenize", "tokenizer_kwargs", "truncation",
)  # fmt: skip

# Deeper than any schema, and well within what Python recurses.
MAX_DEPTH = 64

# The keys under which APIs pass an assistant's reasoning; the first is what templates read.
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")


def chat_context(
    messages: object, add_generation_prompt: bool, tools: object, variables: Mapping[str, object]
) -> dict[str, Any]:
    """The variables that a template sees, as new values of JSON's types and tuples.

    Raises:
        ChatTemplateError: messages, tools or variables have the wrong shape.
    """
    for name in variables:
        if name in NOT_VARIABLES:
            raise ChatTemplateError(f"{name} is an option of transformers that augur lacks.")
    return {
        "documents": None,
        **{name: _plain(name, value) for name, value in variables.items()},
        "messages": _plain_messages(messages),
        "tools": None if tools is None else _plain_tools(tools),
        "add_generation_prompt": add_generation_prompt,
    }


def _plain_messages(messages: object) -> list[dict[str, Any]]:
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        example = '[{"role": "user", "content": "Hello"}]'
        raise ChatTemplateError(f"messages is a {type(messages).__name__}, expected {example}.")
    if not messages:
        raise ChatTemplateError("messages is empty, expected at least one message.")
    return [_plain_message(f"messages[{place}]", message) for place, message in enumerate(messages)]


def _plain_tools(tools: object) -> list[Any]:
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
        raise ChatTemplateError(f"tools is a {type(tools).__name__}, expected a list of dicts.")
    for place, tool in enumerate(tools):
        if not isinstance(tool, Mapping):
            raise ChatTemplateError(
                f"tools[{place}] is a {type(tool).__name__}, expected its JSON schema as a dict; "
                "functions are not turned into schemas."
            )
    return [_plain(f"tools[{place}]", tool) for place, tool in enumerate(tools)]


def _plain(where: str, value: object, depth: int = 0) -> Any:
    """A copy made of plain types alone; an error names the place of what cannot be copied."""
    if depth > MAX_DEPTH:
        raise ChatTemplateError(
            f"{where[:80]}... is nested more than {MAX_DEPTH} deep. Hand over less, or as text."
        )
    match value:
        case None | bool():
            return value
        # A subclass (an enum, say) may print as something else: its plain value is what counts.
        case str():
            try:
                return checked_text(str.__str__(value))
            except TokenizerError as error:
                raise ChatTemplateError(f"{where}: {error}") from None
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case Mapping():
            return {
                _plain(f"{where}, a key", key, depth + 1): _plain(
                    f"{where}[{shown(key)}]", item, depth + 1
                )
                for key, item in value.items()
            }
        case list() | tuple():
            items = [_plain(f"{where}[{at}]", item, depth + 1) for at, item in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
    raise ChatTemplateError(
        f"{where} is a {type(value).__name__}, expected text, a number, a bool, None, a list or a "
        "dict. Convert it first."
    )


def _plain_message(where: str, message: object) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise ChatTemplateError(
            f"{where} is a {type(message).__name__}, expected a dict with role and content."
        )
    # Some APIs write a missing content or tool call as None, which templates would print.
    plain = {
        key: _plain(f"{where}[{shown(key)}]", value)
        for key, value in message.items()
        if value is not None
    }
    role, content = plain.get("role"), plain.get("content")
    if not isinstance(role, str):
        raise ChatTemplateError(f"{where} has the role {shown(role)}, expected such as 'user'.")
    is_blocks = isinstance(content, list) and all(isinstance(item, dict) for item in content)
    lacks_it = content is None and plain.get("tool_calls")
    if not (isinstance(content, str) or is_blocks or lacks_it):
        raise ChatTemplateError(
            f"{where} (role {shown(role)}) has the content {shown(content)}, expected a text or a "
            "list of content blocks (dicts); only a message with tool_calls may lack it."
        )
    reasoning = next((plain[key] for key in REASONING_KEYS if key in plain), None)
    if reasoning is not None:
        plain = {"thinking": reasoning, **plain, "reasoning_content": reasoning}
    return plain
