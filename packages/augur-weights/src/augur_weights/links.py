"""Where the links of a checkpoint folder lead."""

from collections.abc import Iterable
from pathlib import Path

from augur_weights.errors import CheckpointError


def refuse_foreign_links(folder: Path, names: Iterable[str]) -> None:
    """Check that the files of a Hub snapshot lie in their own repository's part of the cache.

    There, links are huggingface_hub's own and lead to the repository's ``blobs``; one that leads
    elsewhere came with an archive or was put there, and the model would be something else than its
    name says. In any other folder links are its owner's: they are followed, as everywhere, and what
    they lead to is checked like any file.

    Args:
        folder: the checkpoint folder.
        names: of the files in it that are used; those that are not there are passed over.

    Raises:
        CheckpointError: a link leads out of the repository's part of the cache.
    """
    folder = folder.resolve()
    if folder.parent.name != "snapshots":
        return
    repository = folder.parent.parent
    # blobs may itself be a link, by which an owner keeps large files on another disk.
    homes = (repository, (repository / "blobs").resolve())
    for name in names:
        try:
            target = (folder / name).resolve()
        except (OSError, RuntimeError):  # links that lead in a circle: RuntimeError before 3.13
            target = Path("/")
        if not any(target.is_relative_to(home) for home in homes):
            raise CheckpointError(
                f"{folder / name}: is a link to {target}, expected a file of {repository}. "
                f"Refused: delete {repository} and fetch the model again."
            )
