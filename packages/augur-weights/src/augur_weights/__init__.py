"""From a name to checked tensors: ``resolve``, then ``Checkpoint``, then ``load_into``."""

from augur_weights.checkpoint import Checkpoint
from augur_weights.embedded import DEFAULT_MODEL
from augur_weights.errors import (
    CheckpointError,
    EmbeddedModelError,
    GGUFError,
    SourceError,
    WeightsError,
)
from augur_weights.gguf_import import import_gguf
from augur_weights.loading import check_fit, load_into
from augur_weights.progress import Progress
from augur_weights.resolve import resolve, resolve_config
from augur_weights.verify import Verification, verify

__all__ = [
    "DEFAULT_MODEL",
    "Checkpoint",
    "CheckpointError",
    "EmbeddedModelError",
    "GGUFError",
    "Progress",
    "SourceError",
    "Verification",
    "WeightsError",
    "check_fit",
    "import_gguf",
    "load_into",
    "resolve",
    "resolve_config",
    "verify",
]
