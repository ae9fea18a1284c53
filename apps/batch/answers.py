"""The file of answers: one JSON object a line, written whole, never written over.

Each line says what its answer was made with and from which prompt, so the file needs no other
beside it, and a run that was broken off is taken up by reading it. All that a crash can leave
behind is a last line that does not end: it is cut off, and its prompt answered again.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from batch.errors import BatchError, one_error_for_all
from batch.prompts import BatchPrompt, PromptId

FORMAT = "augur-answer/1"
_BEGINNING = json.dumps({"format": FORMAT}).removesuffix("}").encode() + b", "
_OTHER = "Give another --output, or delete this file to answer all prompts anew"


@contextmanager
def only_process_on(path: Path) -> Iterator[None]:
    """Keep other processes from the file.

    The lock is a file beside it, which stays; the system lets go of it when the process ends,
    however it ends.

    Raises:
        BatchError: another process is on it, or its folder is not there.
    """
    path = path.resolve()
    if not path.parent.is_dir():
        raise BatchError(f"{path}: there is no folder {path.parent}. Make it first")
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise BatchError(
            f"{path}: another process is writing to it. Wait for that, or give another --output"
        ) from None
    try:
        yield
    finally:
        lock.release()


def read_answers(path: Path) -> tuple[list[dict[str, Any]], int]:
    """What is there already; nothing is changed.

    Returns:
        the answers, and how many bytes they take: what lies beyond is a line that broke off.

    Raises:
        BatchError: it holds something else than answers.
    """
    if not path.exists():
        return [], 0
    if not path.is_file():
        raise BatchError(f"{path}: not a file. Give another --output")
    *whole, rest = path.read_bytes().split(b"\n")
    answers: list[dict[str, Any]] = []
    with one_error_for_all(path) as errors:
        for number, line in enumerate(whole, start=1):
            with errors.of_line(number):
                answers.append(_answer(line))
        # Nobody's text is to be cut off but our own.
        if not whole and not (rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)):
            with errors.of_line(1):
                _answer(rest)
    return answers, sum(len(line) + 1 for line in whole)


def check_answers(
    path: Path,
    answers: list[dict[str, Any]],
    prompts: list[BatchPrompt],
    made_with: dict[str, Any],
) -> None:
    """Check that a run may go on after these answers.

    Raises:
        BatchError: they are others' answers: made with something else, of other prompts, or
            answering one twice.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    answered: dict[PromptId, int] = {}
    for number, answer in enumerate(answers, start=1):
        where, prompt_id = f"{path}:{number}", answer["id"]
        differences = list(_differences(answer["made_with"], made_with))
        if differences:
            raise BatchError(
                f"{where}: made with other settings: {'; '.join(differences)}. "
                f"Give the same as then. {_OTHER}"
            )
        if prompt_id not in by_id:
            raise BatchError(
                f"{where}: answers {prompt_id!r}, which --input does not have. {_OTHER}"
            )
        if answer["prompt_sha256"] != by_id[prompt_id].sha256:
            raise BatchError(
                f"{where}: answers {prompt_id!r}, and line {by_id[prompt_id].number} of --input "
                f"asks something else under that id now. {_OTHER}"
            )
        if prompt_id in answered:
            raise BatchError(
                f"{where}: answers {prompt_id!r} a second time, after line {answered[prompt_id]}. "
                f"{_OTHER}"
            )
        answered[prompt_id] = number


class AnswerWriter:
    """Appends whole lines.

    Args:
        path: made if it is not there.
        num_bytes: how many of its bytes to keep.
    """

    def __init__(self, path: Path, num_bytes: int) -> None:
        self._file: BinaryIO = path.open("ab")
        self._file.truncate(num_bytes)

    def write(self, answer: dict[str, Any]) -> None:
        """Append an answer; it is on the disk when this returns."""
        text = json.dumps({"format": FORMAT} | answer, ensure_ascii=False, allow_nan=False)
        # UTF-8 has no lone surrogates; JSON writes them, and so does backslashreplace.
        self._file.write(text.encode("utf-8", "backslashreplace") + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("format") != FORMAT:
        raise BatchError(f"not an answer of this program ({FORMAT}). {_OTHER}")
    if type(answer.get("id")) not in (str, int) or not {"made_with", "prompt_sha256"} <= set(
        answer
    ):
        raise BatchError(f"not a whole answer. {_OTHER}")
    return answer


def _differences(then: Any, now: Any, name: str = "") -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in then | now:
            yield from _differences(then.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif then != now:
        yield f"{name} was {json.dumps(then)} and is {json.dumps(now)}"
