"""What a proof raises when it cannot be carried out, and when it fails."""


class ProofError(ValueError):
    """A file, an ops table or a pair of networks that cannot be used; the message says why."""


class ComparisonError(AssertionError):
    """Two results that should agree do not; the message says where, and by how much."""


class OpFailedError(RuntimeError):
    """An op on trial raised, or gave something else than a tensor of the right kind."""
