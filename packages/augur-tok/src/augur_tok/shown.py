"""What was found, in an error's message, whatever it was."""

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
