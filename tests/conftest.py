"""Fixtures that more than one file of tests needs."""

import os
import signal
from pathlib import Path

import pytest
import torch

import augur_weights

ALL_THREADS = torch.get_num_threads()


@pytest.fixture(scope="session")
def real_checkpoint() -> Path:
    """The default model's checkpoint folder, imported on first use.

    It is part of the installation: where it cannot be had, the tests that need it fail.
    """
    return augur_weights.resolve(None)


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C and a closed terminal do what they do at a terminal, in the programs of tests, too.

    A shell starts its background jobs with Ctrl-C ignored, and nohup with the other. And where
    Python is told to keep no bytecode, it is kept apart: else each program compiles torch anew.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and config.cache is not None:
        os.environ["PYTHONPYCACHEPREFIX"] = str(config.cache.mkdir("bytecode"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those with the real model come first: they take longest, and others have work meanwhile."""
    items.sort(key=lambda item: "real" not in item.keywords)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """One thread for small models: waking threads takes longer than what they would do.

    And one for all where tests run beside each other: threads that wait for a core spin. It is set
    before any fixture of the test is made, whatever its scope: what a fixture records has to be
    summed in the same order as what the test compares with it.
    """
    is_alone = "PYTEST_XDIST_WORKER" not in os.environ
    torch.set_num_threads(ALL_THREADS if is_alone and "real" in item.keywords else 1)
