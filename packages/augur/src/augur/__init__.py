"""The oracle for Qwen inference, composed: load a model, chat, stream, batch."""
