"""How much memory the process has taken at most."""

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
