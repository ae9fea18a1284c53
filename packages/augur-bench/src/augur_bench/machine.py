"""What a figure was measured on and with, and the most memory that it took."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from augur.memory import peak_memory_bytes

_CPUINFO = Path("/proc/cpuinfo")
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def compute_environment(device: torch.device) -> dict[str, Any]:
    """What the computing process says of itself."""
    return {
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def machine_environment() -> dict[str, Any]:
    """The machine, the software and the moment."""
    transformers = None
    with suppress(PackageNotFoundError):
        transformers = version("transformers")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers,
    }


def peak_memory(device: torch.device) -> int | None:
    """Bytes: on a GPU the allocator's peak, on a CPU the resident peak of this process alone."""
    # getrusage would do, but a child starts with its parent's peak there.
    peak = None if device.type == "cuda" else _line_of(_STATUS, "VmHWM")
    return peak_memory_bytes(device) if peak is None else int(peak.split()[0]) * 1024


def reset_peak_memory(device: torch.device) -> bool:
    """Begin the peak anew; False where the system cannot: it stays that of the whole process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    with suppress(OSError):
        # proc(5): writing 5 sets the peak resident size back to the present one.
        return _CLEAR_REFS.write_text("5", encoding="utf-8") > 0
    return False


def _cpu_name() -> str:
    name = _line_of(_CPUINFO, "model name")
    if name is None and sys.platform == "darwin":
        name = _output_of("sysctl", "-n", "machdep.cpu.brand_string")
    return name or platform.processor() or platform.machine()


def _line_of(path: Path, key: str) -> str | None:
    """The first value of a key in a file of lines such as "key : value"."""
    with suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return None


def _memory_bytes() -> int | None:
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _commit() -> str | None:
    """The checkout's commit, with "+changes" where files differ; None outside a checkout."""
    folder = str(Path(__file__).resolve().parent)
    commit = _output_of("git", "-C", folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return f"{commit}+changes" if _output_of("git", "-C", folder, "status", "-s") else commit


def _output_of(*command: str) -> str | None:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()
    return None
