"""A process in which Triton interprets kernels on the CPU.

Triton reads TRITON_INTERPRET when it is imported, and other tests of this process may compile.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tensors this small lose more by sharing work between threads than they gain."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="session")
def interpreted() -> Iterator[Callable[..., Any]]:
    """`interpreted(kernel, *arguments)`: the call in that process; tensors share their memory."""
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with pool, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        pool.submit(torch.set_num_threads, 1).result()
        patch.undo()
        yield lambda kernel, *arguments: pool.submit(kernel, *arguments).result()
