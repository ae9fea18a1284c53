"""How much memory the process has taken at most, and whether it ran out of it."""

import sys

import torch

try:
    import resource
except ImportError:  # Windows has no such module
    resource = None  # type: ignore[assignment]


def peak_memory_bytes(device: torch.device) -> int | None:
    """On a GPU the allocator's peak; on a CPU the resident peak of the process.

    None where the system does not tell.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def is_out_of_memory(error: Exception) -> bool:
    """Whether that is what went wrong, on any device."""
    # torch's allocator for the CPU has no error of its own.
    of_cpu = isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
    return of_cpu or isinstance(error, MemoryError | torch.OutOfMemoryError)
