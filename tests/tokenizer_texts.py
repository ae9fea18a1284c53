"""Texts and chats on which the tokenizers are compared."""

from typing import Any

from transformers import PreTrainedTokenizerBase

# Qwen's first added token: ids below it are the vocabulary's, ids from it on are control tokens.
FIRST_ADDED_ID = 151_643

TEXTS = [
    "->",
    "(x):\n",
    "12345",
    "3.14159 + 2,000,000 = ½ ٣٤",
    "x != y , z .",
    " hello",
    "   three   spaces   ",
    "a\n\n\n  b\r\n\tc \n ",
    "I'm, we'Ll, they'VE, it's, 'tis, rock'n'roll",
    "世界你好，世界很大。カタカナ、ひらがな。한국어",
    "Grüße, e\u0301te\u0301, naïve, Ελληνικά, Привет, שלום, नमस्ते, ไทย",
    "🙂👩‍👩‍👧‍👦🇩🇪",
    "def f(x: int) -> str:\n    return f'{x!r}'  # note\n",
    "<|im_start|>system\n<tool_call> <|fim_prefix|>a<|fim_suffix|>b<|endoftext|>",
    "\x00\x01\x7f\u200b\ufeff\ufffd",
]

CHATS: dict[str, list[dict[str, Any]]] = {
    "no system message": [{"role": "user", "content": "Why is the sky blue?"}],
    "custom system message": [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": "Why is the sky blue?"},
    ],
    "empty system message": [
        {"role": "system", "content": ""},
        {"role": "user", "content": " Why is the sky blue? \n"},
    ],
    "two turns": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello! 🙂"},
        {"role": "user", "content": "e\u0301 世界\n\n"},
    ],
    "two turns with a system message": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Bye"},
    ],
    "a tool call": [
        {"role": "user", "content": "How warm is it in Zürich?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "warmth", "arguments": {"city": "Zürich"}}}],
        },
        {"role": "tool", "content": "21 < 25 & rising"},
    ],
    "a tool call as the model wrote it": [
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": '<tool_call>\n{"name": "warmth"}\n</tool_call>'},
    ],
}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "warmth",
            "description": "Degrees in a city's <centre>, 'today'.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def referee_chat_ids(
    referee: PreTrainedTokenizerBase, messages: list[dict[str, Any]], **options: Any
) -> list[int]:
    """transformers' ids of a chat: a list in version 4, a dict by default in version 5."""
    encoded = referee.apply_chat_template(messages, tokenize=True, **options)
    return list(encoded if isinstance(encoded, list) else encoded["input_ids"])
