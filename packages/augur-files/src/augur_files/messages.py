"""What an error's message may look like, whatever it quotes."""

# A message quotes names out of files that may be hostile; no true one is nearly as long.
_MAX_CHARACTERS = 2000
_MAX_VALUE_CHARACTERS = 200


def one_line(text: str) -> str:
    """One line of printable text of at most 2000 characters, whatever ``text`` quotes.

    It can neither break the line, nor steer the terminal, nor fill the screen.
    """
    # Before the spelling out, too, which may take ten times the memory.
    short = _shortened(text)
    return _shortened(
        "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)
    )


def shown(value: object) -> str:
    """A value as Python writes it, cut to a readable length; its type where that fails.

    It comes from a file or a caller and may be anything: a number of 5,000 digits has no repr.
    """
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}..."


def _shortened(text: str) -> str:
    if len(text) <= _MAX_CHARACTERS:
        return text
    # The end stays, because it says what to do.
    half = _MAX_CHARACTERS // 2 - 3
    return f"{text[:half]} ... {text[-half:]}"
