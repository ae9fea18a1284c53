"""Reading a checkpoint's text and JSON files: always UTF-8, whatever the locale."""

import json
from pathlib import Path
from typing import Any

from augur_tok.errors import TokenizerError
from augur_tok.present_files import is_there

LFS_POINTER_START = "version https://git-lfs"

# Qwen's largest is about 11 MB.
MAX_BYTES = 100_000_000


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        TokenizerError: the file cannot be read, is too large, is not UTF-8, or is a Git LFS
            pointer.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TokenizerError(
                f"{path} has {path.stat().st_size:,} bytes, expected at most {MAX_BYTES:,}: it is "
                "no tokenizer file. Fetch the checkpoint's files again."
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TokenizerError(
            f"{path} cannot be read ({error.strerror}). Fetch the checkpoint's files again."
        ) from error
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"{path} is not UTF-8 text (byte {error.start}: {error.reason}). "
            "The file is damaged: fetch it again."
        ) from error
    if text.startswith(LFS_POINTER_START):
        raise TokenizerError(
            f"{path} is a Git LFS pointer, not the file itself. Fetch it with `git lfs pull`, "
            "or download the checkpoint again."
        )
    return text


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object (a dict with text keys) that a UTF-8 file holds.

    Raises:
        TokenizerError: as `read_text`, or the file is not JSON, or it holds something else.
    """
    return json_object(path, read_text(path))


def json_object(path: Path, text: str) -> dict[str, Any]:
    """As `read_json_object`, for the text that was read from a file."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # a ValueError for a number of 5,000 digits
        raise TokenizerError(
            f"{path} is not valid JSON ({error}). It may be cut short: fetch it again."
        ) from error
    if not isinstance(value, dict):
        raise TokenizerError(
            f"{path} holds a JSON {type(value).__name__}, expected an object. Fetch it again."
        )
    return value


def read_json_object_if_present(path: Path) -> dict[str, Any]:
    """As `read_json_object`; an empty dict where there is nothing of that name."""
    return read_json_object(path) if is_there(path) else {}
