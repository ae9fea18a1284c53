"""What goes wrong in a bench."""


class BenchError(ValueError):
    """Something asked for cannot be measured; the message says what and why."""


class RungUnavailableError(BenchError):
    """A rung that does not go with this machine or model; it alone is left out."""


class RungFailedError(RuntimeError):
    """A rung broke while it was run; nothing measured is then worth printing."""
