"""How many tokens a conversation may come to, and the memory for them."""

from augur.conversation_errors import ConversationError
from augur.engine import Engine
from augur.free_memory import require_memory
from augur_gen import StaticKVCache

DEFAULT_CONTEXT = 4096
"""Tokens; a 0.5B's keys and values for them take 100 MB in float32."""


def make_cache(engine: Engine, context: int | None) -> StaticKVCache:
    """Memory for the keys and values of `context` tokens, or of as many as are usual.

    Raises:
        ConversationError: the model has fewer positions.
        NoRoomError: the device has too little memory free.
    """
    num_positions = engine.model.config.num_positions
    if context is None:
        context = min(DEFAULT_CONTEXT, num_positions)
    if not 1 <= context <= num_positions:
        raise ConversationError(
            f"--context is {context}, expected from 1 to {num_positions} tokens, the positions "
            "that the model has"
        )
    config, dtype = engine.model.config, engine.model.dtype
    require_memory(
        f"the keys and values of --context {context}",
        StaticKVCache.num_bytes_of(config, context, dtype=dtype),
        engine.model.device,
        "Ask for a smaller one, or use a --dtype of fewer bytes",
    )
    return StaticKVCache.for_model(engine.model, context)
