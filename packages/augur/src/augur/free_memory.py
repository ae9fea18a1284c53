"""How much memory a device has free, and the refusal of what is larger."""

from collections.abc import Iterator
from pathlib import Path

import torch

from augur.errors import NoRoomError
from augur.memory_plan import gigabytes

# Where nothing is known of a machine, at least this is more than it has.
_MORE_THAN_ANY_MACHINE = 2**50


def require_memory(what: str, num_bytes: int, device: torch.device, advice: str) -> None:
    """Refuse to begin what cannot end.

    Args:
        what: takes the memory, for the message.
        num_bytes: how much it takes.
        device: where.
        advice: what to do instead, arguments' names in braces.

    Raises:
        NoRoomError: the device has less free.
    """
    free = free_memory_bytes(device)
    if num_bytes > (_MORE_THAN_ANY_MACHINE if free is None else free):
        found = "no machine has that" if free is None else f"{gigabytes(free)} are free"
        needed = gigabytes(num_bytes)
        raise NoRoomError(f"%s need %s on %s, and %s. {advice}", what, needed, device, found)


def free_memory_bytes(device: torch.device) -> int | None:
    """Bytes that may still be taken; None where the system does not tell.

    On CUDA what the driver and torch's own allocator have free. On a CPU, of Linux, what can be
    had without swapping, within the limits of the control groups (containers) that the process is
    in.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free_cpu_memory_bytes() if device.type == "cpu" else None


def free_cpu_memory_bytes(root: Path = Path("/")) -> int | None:
    """See `free_memory_bytes`; `root` is where the file system begins."""
    found = list(_left_by_control_groups(root))
    meminfo = _numbers(root / "proc/meminfo")
    if "MemAvailable:" in meminfo:
        found.append(meminfo["MemAvailable:"] * 1024)
    return min(found, default=None)


def _left_by_control_groups(root: Path) -> Iterator[int]:
    """What each group around the process leaves, where it sets a limit."""
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0":
            mount, limit, usage, prefix = "", "memory.max", "memory.current", ""
        elif "memory" in controllers.split(","):
            mount, limit, usage = (
                "memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
            prefix = "total_"
        else:
            continue
        top = root / "sys/fs/cgroup" / mount
        group = top / path.strip("/")
        # In a container the path may be the host's: then only the top is there.
        for folder in (group, *group.parents):
            allowed, used = _number(folder / limit), _number(folder / usage)
            if allowed is not None and used is not None:
                stat = _numbers(folder / "memory.stat")
                # Pages of files, such as a checkpoint just read, are given up when need be.
                files = sum(stat.get(f"{prefix}{kind}_file", 0) for kind in ("active", "inactive"))
                yield max(allowed - used + files, 0)
            if folder == top:
                break


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _number(path: Path) -> int | None:
    """A file's one number; None where there is none, or it says "max"."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _numbers(path: Path) -> dict[str, int]:
    """Lines of a name and a number, as in memory.stat and meminfo."""
    words = [line.split() for line in _lines(path)]
    return {found[0]: int(found[1]) for found in words if len(found) > 1 and found[1].isdigit()}
