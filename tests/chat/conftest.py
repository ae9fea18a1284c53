from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from augur.llm import LLM, load
from chat_turns import write_chatty


@pytest.fixture(scope="session")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chatty(tmp_path_factory.mktemp("chat") / "checkpoint")


@pytest.fixture(scope="session")
def load_engine() -> Callable[[Path], LLM]:
    def load_folder(folder: Path) -> LLM:
        return load(folder, device="cpu", dtype="float32")

    return load_folder


@pytest.fixture(scope="session")
def engine(chat_folder: Path, load_engine: Callable[[Path], LLM]) -> LLM:
    return load_engine(chat_folder)


@pytest.fixture
def at_forward_pass(
    engine: LLM,
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
