"""The files of a checkpoint folder, read strictly; what was read is kept as a list."""

from pathlib import Path
from typing import Any

from augur_files import FileReader
from augur_tok.errors import TokenizerError

# Qwen's largest, tokenizer.json, has about 11 MB.
READER = FileReader(TokenizerError, 100_000_000)


class CheckpointFiles:
    """One folder's files by their names; whatever is wrong with one is a TokenizerError.

    Attributes:
        folder: where they lie.
        read: the paths of those that were read, in order.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[Path] = []

    def has(self, name: str) -> bool:
        """Whether there is a file of this name; False only where nothing has it."""
        return READER.is_file(self.folder / name)

    def names_in(self, folder: str, ending: str) -> list[str]:
        """The names, with the folder's own before them, of files in it that end so, in order."""
        return [f"{folder}/{path.name}" for path in READER.files_in(self.folder / folder, ending)]

    def text(self, name: str) -> str:
        """The text that a file holds."""
        self.read.append(self.folder / name)
        return READER.text(self.folder / name)

    def json_object(self, name: str) -> dict[str, Any]:
        """The JSON object that a file holds."""
        return READER.json_object(self.folder / name, self.text(name))

    def json_object_if_present(self, name: str) -> dict[str, Any]:
        """As `json_object`; empty where nothing has the name."""
        return self.json_object(name) if self.has(name) else {}
