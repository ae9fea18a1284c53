from pathlib import Path

import pytest

from augur_proof.tiny_checkpoint import write_tiny_checkpoint


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("tiny") / "checkpoint")
