"""Files of a checkpoint, read strictly and refused in one clear sentence."""

from augur_files.file_state import file_state
from augur_files.lfs_pointer import lfs_pointer
from augur_files.messages import one_line, shown
from augur_files.reader import FileReader
from augur_files.strict_json import StrictJSONError, parse_json

__all__ = [
    "FileReader", "StrictJSONError", "file_state", "lfs_pointer", "one_line", "parse_json", "shown",
]  # fmt: skip
