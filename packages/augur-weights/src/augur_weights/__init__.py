"""From a name to checked tensors: ``resolve``, then ``Checkpoint``, then ``load_into``."""

from augur_files import StrictJSONError, one_line, parse_json
from augur_weights.checkpoint import Checkpoint
from augur_weights.digests import file_sha256
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
    "DEFAULT_MODEL", "Checkpoint", "CheckpointError", "EmbeddedModelError", "GGUFError", "Progress",
    "SourceError", "StrictJSONError", "Verification", "WeightsError", "check_fit", "file_sha256",
    "import_gguf", "load_into", "one_line", "parse_json", "resolve", "resolve_config", "verify",
]  # fmt: skip
