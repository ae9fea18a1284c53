"""What the package offers, and what it can do without."""

import subprocess
import sys

import augur_weights

WITHOUT_GGUF = """
import sys
from unittest.mock import MagicMock
sys.modules["torch"] = MagicMock()  # spares seconds; which modules are imported is all that matters
sys.modules["gguf"] = None
import augur_weights
assert "huggingface_hub.hf_api" not in sys.modules
print(all(hasattr(augur_weights, name) for name in augur_weights.__all__))
"""


def test_everything_that_is_offered_is_there_without_the_gguf_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GGUF],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr


def test_every_error_is_a_weights_error_but_the_parsers_own() -> None:
    errors = [name for name in augur_weights.__all__ if name.endswith("Error")]
    errors.remove("StrictJSONError")
    assert len(errors) == 5
    for name in errors:
        assert issubclass(getattr(augur_weights, name), augur_weights.WeightsError)
