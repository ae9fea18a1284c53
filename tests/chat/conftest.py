from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch

from augur.engine import Engine
from chat_turns import write_chatty


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


@pytest.fixture
def at_forward_pass(
    engine: Engine,
) -> Callable[[int, Callable[[], object]], AbstractContextManager[None]]:
    """While the block runs, something is done within a forward pass, the first being 1."""

    @contextmanager
    def within(forward_pass: int, do: Callable[[], object]) -> Iterator[None]:
        passes = 0

        def count(*_arguments: object) -> None:
            nonlocal passes
            passes += 1
            if passes == forward_pass:
                do()

        handle = engine.model.model.layers[1].register_forward_pre_hook(count)
        try:
            yield
        finally:
            handle.remove()

    return within
