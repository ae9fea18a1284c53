"""The oracle for Qwen inference: load a model, chat, stream, batch, hold a conversation.

import augur

llm = augur.load()
print(llm.chat("Name a colour.").text)
"""

from augur.conversation import Conversation
from augur.errors import (
    ContextFullError,
    ConversationError,
    DeviceError,
    NoRoomError,
    OptionError,
    PromptError,
    UnansweredError,
)
from augur.llm import LLM, load
from augur.memory_plan import MemoryPlan
from augur.messages import Message
from augur.options import GenerationOptions, Options
from augur_gen import ArgumentError, Constraint, GenerationError, TextResult, TextStream

__all__ = [
    "LLM",
    "ArgumentError",
    "Constraint",
    "ContextFullError",
    "Conversation",
    "ConversationError",
    "DeviceError",
    "GenerationError",
    "GenerationOptions",
    "MemoryPlan",
    "Message",
    "NoRoomError",
    "OptionError",
    "Options",
    "PromptError",
    "TextResult",
    "TextStream",
    "UnansweredError",
    "load",
]
