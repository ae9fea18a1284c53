"""What augur-kernels raises. Catch `KernelError` for all of it."""


class KernelError(ValueError):
    """Root of this package's errors."""


class KernelUnavailableError(KernelError):
    """Kernels that cannot run here: names what is missing, and what to do."""


class KernelInputError(KernelError):
    """Tensors whose shape, dtype or device does not fit: names what was found and expected."""
