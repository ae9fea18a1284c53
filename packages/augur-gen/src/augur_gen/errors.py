"""What augur-gen raises. Catch `GenerationError` for all of it."""


class GenerationError(ValueError):
    """Root of this package's errors."""


class CacheFullError(GenerationError):
    """More tokens than a cache has room for; nothing was written."""
