"""What was found, in an error's message: one printable line, whatever it was."""

MOST = 200


def shown(value: object) -> str:
    """A value as Python writes it, cut to a readable length; its type where that fails.

    It comes from a file or a caller and may be anything: a number of 5,000 digits has no repr.
    """
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def printable(words: object, most: int = 1_000) -> str:
    """Words from a file or a library, cut to a readable length, with control characters escaped.

    A line break in them would begin what looks like a message of ours.
    """
    text = str(words)
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
