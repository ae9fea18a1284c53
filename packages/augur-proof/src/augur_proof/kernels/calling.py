"""A kernel called with inputs in guarded memory, and its result looked at for what it is."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from augur_model.ops import Pages
from augur_proof.kernels.guards import Placed
from augur_proof.kernels.op import Kernel, Op, Workload, dtype_name


class BrokenKernelError(Exception):
    """A kernel raised, or gave something else than it should."""

    def __init__(self, message: str, where: str = "everywhere") -> None:
        super().__init__(message)
        self.where = where


def on_device(value: Any, device: torch.device) -> Any:
    """An argument, its tensors moved."""
    if isinstance(value, Pages):
        return replace(value, tables=value.tables.to(device))
    return value.to(device) if isinstance(value, Tensor) else value


class GuardedCall:
    """A kernel, with its inputs in guarded memory."""

    def __init__(
        self,
        kernel: Kernel,
        op: Op,
        workload: Workload,
        inputs: tuple[Any, ...],
        device: torch.device,
    ) -> None:
        self._kernel = kernel
        self._device = device
        self._placed = {
            place: Placed(op.arguments[place], value, workload.layout, device)
            for place, value in enumerate(inputs)
            if isinstance(value, Tensor)
        }
        self._arguments = self._with_placed(inputs)
        self._complaint: str | None = None
        self._due = op.due(*inputs)

    def fill(self, inputs: tuple[Any, ...]) -> None:
        """Other values, in the same memory."""
        self._note()
        for place, placed in self._placed.items():
            placed.fill(inputs[place])
        self._arguments = self._with_placed(inputs)

    def complaint(self) -> str | None:
        """What the calls did to their inputs, in words."""
        self._note()
        return self._complaint

    def _with_placed(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments: tensors in guarded memory, all else as it is drawn."""
        return tuple(
            self._placed[place].tensor if place in self._placed else on_device(value, self._device)
            for place, value in enumerate(inputs)
        )

    def _note(self) -> None:
        for placed in self._placed.values():
            self._complaint = self._complaint or placed.complaint()

    def __call__(self) -> tuple[Tensor, ...]:
        """The outputs, each looked at.

        Raises:
            BrokenKernelError: it raised, or gave something else than it should.
        """
        try:
            given = self._kernel(*self._arguments)
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # whatever a kernel does when it is run
            raise BrokenKernelError(f"it raised {type(error).__name__}: {error}") from error
        outputs = given if isinstance(given, tuple) else (given,)
        if len(outputs) != len(self._due):
            raise BrokenKernelError(
                f"it gave {type(given).__name__}, expected a tuple of {len(self._due)} tensors"
            )
        for wanted, output in zip(self._due, outputs, strict=True):
            self._check(output, *wanted)
        return outputs

    def _check(self, output: Any, shape: torch.Size, dtype: torch.dtype) -> None:
        wanted = f"{list(shape)} {dtype_name(dtype)} on {self._device}"
        if type(output) is not Tensor or output.layout != torch.strided:
            raise BrokenKernelError(
                f"it gave a {type(output).__name__}, expected a tensor {wanted}"
            )
        kind = f"{list(output.shape)} {dtype_name(output.dtype)} on {output.device}"
        due = (shape, dtype, self._device.type)
        if (output.shape, output.dtype, output.device.type) != due:
            raise BrokenKernelError(f"it gave {kind}, expected {wanted}")
        if any(placed.holds(output) for placed in self._placed.values()):
            raise BrokenKernelError("its output lies in the memory of an input")
