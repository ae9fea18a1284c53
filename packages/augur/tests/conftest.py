"""One tiny checkpoint, loaded once."""

from pathlib import Path

import pytest

import augur
from augur_proof.tiny_checkpoint import write_tiny_checkpoint


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("augur") / "tiny")


@pytest.fixture(scope="session")
def llm(folder: Path) -> augur.LLM:
    return augur.load(folder, device="cpu", dtype="float32")
