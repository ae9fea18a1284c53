"""What a proof raises when it cannot be carried out."""


class ProofError(ValueError):
    """A file, an ops table or a pair of networks that cannot be used; the message says why."""
