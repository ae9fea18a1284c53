"""The errors this package raises."""


class TokenizerError(ValueError):
    """A tokenizer file, a text or a token id that cannot be used; the message says what to do."""


class ChatTemplateError(TokenizerError):
    """A chat that cannot be rendered: no template, unusable messages, or a template that fails."""
