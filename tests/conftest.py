"""Fixtures that more than one file of tests needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import augur_weights


@pytest.fixture(scope="session")
def real_checkpoint() -> Path:
    """The default model's checkpoint folder, imported on first use.

    It is part of the installation: where it cannot be had, the tests that need it fail.
    """
    return augur_weights.resolve(None)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch on one thread while the test runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def few_threads_for_small_models(request: pytest.FixtureRequest) -> None:
    """Waking threads takes longer than what they would do for a tiny model."""
    if "real" not in request.keywords:
        request.getfixturevalue("one_thread")
