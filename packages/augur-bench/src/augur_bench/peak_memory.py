"""The most memory taken since a moment, not since the process began."""

from pathlib import Path

import torch

from augur.memory import peak_memory_bytes

_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
# proc(5): writing 5 sets the peak resident size back to the present one.
_RESET_PEAK = "5"


def reset_peak_memory(device: torch.device) -> bool:
    """Begin anew; False where the system cannot, and the peak stays that of the whole process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="utf-8")
    except OSError:
        return False
    return True


def peak_memory(device: torch.device) -> int | None:
    """Bytes: on a GPU the allocator's peak, on a CPU the resident peak of this process alone."""
    if device.type != "cuda" and _STATUS.exists():
        # getrusage would do, but a child starts with its parent's peak there.
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return peak_memory_bytes(device)
