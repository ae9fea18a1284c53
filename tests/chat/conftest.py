from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from chat_turns import write_chatty
from engine import Engine


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chatty(tmp_path_factory.mktemp("chat") / "checkpoint")


@pytest.fixture(scope="session")
def load_engine() -> Callable[[Path], Engine]:
    def load(folder: Path) -> Engine:
        return Engine.load(folder, device=torch.device("cpu"), dtype=torch.float32)

    return load


@pytest.fixture(scope="session")
def engine(chat_folder: Path, load_engine: Callable[[Path], Engine]) -> Engine:
    return load_engine(chat_folder)
