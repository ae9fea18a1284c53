"""Where to compute, and in which dtype, unless the user says."""

from typing import Literal, cast

import torch

from augur.errors import DeviceError, OptionError

DTypeName = Literal["float32", "bfloat16", "float16"]

DTYPES: dict[DTypeName, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def choose_device(name: str | None) -> torch.device:
    """The device of that name; without one, cuda, then mps, then cpu.

    Raises:
        DeviceError: there is no such device here.
    """
    available = available_devices()
    if name is None:
        return torch.device(available[0])
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in available:
        raise DeviceError(
            "{device} is %r: this machine has %s. Choose one of them, or leave {device} out",
            name,
            ", ".join(available),
        )
    if device.type != "cuda" and device.index:
        raise DeviceError("{device} is %r: there is only one %s. Choose that", name, device.type)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise DeviceError(
            "{device} is %r: this machine has %d GPUs. Choose from cuda:0 to cuda:%d",
            name,
            count,
            count - 1,
        )
    return device


def available_devices() -> list[str]:
    """Types of device that are usable now, the fastest first."""
    found = []
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def choose_dtype(name: DTypeName | None, device: torch.device) -> torch.dtype:
    """The dtype of that name; without one, bfloat16 where the device computes in it natively.

    Elsewhere float32: emulated bfloat16 takes several times as long on a prompt.

    Raises:
        OptionError: there is no such dtype.
    """
    if name is not None:
        if name not in DTYPES:
            raise OptionError("{dtype} is %r, expected one of %s", name, ", ".join(DTYPES))
        return DTYPES[name]
    return torch.bfloat16 if has_native_bfloat16(device) else torch.float32


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether the device has bfloat16 arithmetic of its own."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        # x86 and Arm name it differently; older torch cannot tell, and float32 is always right.
        get_capabilities = getattr(torch.cpu, "get_capabilities", dict)
        capabilities: dict[str, bool] = get_capabilities()
        return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return False  # mps: torch does not tell which chips have it


def dtype_name(dtype: torch.dtype) -> DTypeName:
    """`torch.float32` -> "float32"."""
    return cast("DTypeName", str(dtype).removeprefix("torch."))
