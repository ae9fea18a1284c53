"""Where checkpoints that augur makes itself are kept."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """The folder for imported checkpoints; it need not exist yet.

    ``AUGUR_CACHE`` where it is set, else ``augur`` in ``XDG_CACHE_HOME``, else ``~/.cache/augur``.
    """
    if chosen := os.environ.get("AUGUR_CACHE"):
        return Path(chosen).expanduser()
    if user_cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(user_cache).expanduser() / "augur"
    return Path.home() / ".cache" / "augur"
