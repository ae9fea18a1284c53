"""Git LFS pointers: what lies in a large file's place after a clone without Git LFS."""


def lfs_pointer(head: bytes, num_bytes: int) -> str | None:
    """What to say of a file that is a pointer, as the rest of a sentence that begins with its path.

    The format is https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.

    Args:
        head: the file's first bytes, 1024 at least if it has as many.
        num_bytes: the file's size.

    Returns:
        ``None`` where it is no pointer.
    """
    if not head.startswith(b"version https://git-lfs"):
        return None
    fields = dict(line.partition(b" ")[::2] for line in head.splitlines())
    size = fields.get(b"size", b"")
    # A hostile pointer may give thousands of digits.
    expected = f"{size[:20].decode()} bytes" if size.isdigit() else "of a size it does not say"
    return (
        f"is a Git LFS pointer of {num_bytes} bytes that stands for the file itself ({expected}). "
        "Fetch it with `git lfs pull`, or download it again."
    )
