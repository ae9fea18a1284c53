"""Other implementations of the ops: a table of Triton kernels, and products with few-bit weights.

The kernels' names are imported when they are asked for, so that what needs no Triton does not need
it installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from augur_kernels.errors import KernelError, KernelInputError, KernelUnavailableError
from augur_kernels.quantised_format import dequantise_int4, dequantise_int8

if TYPE_CHECKING:
    from augur_kernels.triton_ops import TRITON, TRITON_KERNELS

__all__ = [
    "TRITON",
    "TRITON_KERNELS",
    "KernelError",
    "KernelInputError",
    "KernelUnavailableError",
    "dequantise_int4",
    "dequantise_int8",
]


def __getattr__(name: str) -> Any:
    if name not in {"TRITON", "TRITON_KERNELS"}:
        raise AttributeError(f"augur_kernels has no {name}")
    try:
        module = import_module("augur_kernels.triton_ops")
    except ModuleNotFoundError as error:
        if error.name not in {"triton", "numpy"}:  # which triton's interpreter computes with
            raise
        raise KernelUnavailableError(
            f"augur_kernels.{name} needs {error.name}, which is not installed; it comes by: "
            "uv pip install 'augur-kernels[triton]'"
        ) from error
    return getattr(module, name)
