"""The file of answers: one JSON object a line, written whole as the answer is there.

Each line says what its answer was made with and from which prompt, so the file needs no other
beside it, and a run that was broken off is taken up by reading it. All that a crash can leave
behind is a last line that does not end: it is cut off, and its prompt answered again. Nobody's
text but our own is: what cannot be the beginning of an answer is refused.

Answers come in the order in which they were ready. Once all are there, the lines are put into the
prompts' order, so that the file does not tell how often a run was broken off, nor what was ready
first.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from augur.batch.errors import BatchError, one_error_for_all
from augur.batch.prompts import BatchPrompt, PromptId

FORMAT = "augur-answer/1"
_BEGINNING = json.dumps({"format": FORMAT, "id": 0}).removesuffix("0}").encode()
_OTHER = "Give another output, or delete this file to answer all prompts anew"


def read_answers(path: Path) -> tuple[list[dict[str, Any]], int]:
    """What is there already; nothing is changed.

    Returns:
        the answers, and how many bytes they take: what lies beyond is a line that broke off.

    Raises:
        BatchError: it holds something else than answers.
    """
    if not path.exists():
        return [], 0
    *whole, rest = path.read_bytes().split(b"\n")
    answers: list[dict[str, Any]] = []
    with one_error_for_all(path) as errors:
        for number, line in enumerate(whole, start=1):
            with errors.of_line(number):
                answers.append(_answer(line))
        if not _is_torn_answer(rest):
            with errors.of_line(len(whole) + 1):
                raise BatchError(
                    "not the beginning of an answer of this program, and the line does not end, so "
                    f"to go on would cut it off: {rest[:60].decode('utf-8', 'replace')!r}. "
                    "Take it out of the file, or give another output"
                )
    return answers, sum(len(line) + 1 for line in whole)


def check_made_with(path: Path, answers: list[dict[str, Any]], made_with: dict[str, Any]) -> None:
    """Check that a run may go on after these answers, as far as the settings go.

    Args:
        path: of the answers.
        answers: what is there.
        made_with: this run's settings; the checkpoint's digest may be left out while it is not
            known.

    Raises:
        BatchError: an answer was made with something else.
    """
    for number, answer in enumerate(answers, start=1):
        then = answer["made_with"]
        now = {"checkpoint_sha256": then.get("checkpoint_sha256")} | made_with
        differences = list(_differences(then, now))
        if differences:
            raise BatchError(
                f"{path}:{number}: made with other settings: {'; '.join(differences)}. "
                f"Give the same as then. {_OTHER}"
            )


def check_answered(path: Path, answers: list[dict[str, Any]], prompts: list[BatchPrompt]) -> None:
    """Check that a run may go on after these answers, as far as the prompts go.

    Raises:
        BatchError: they answer other prompts, or one twice.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    answered: dict[PromptId, int] = {}
    for number, answer in enumerate(answers, start=1):
        where, prompt_id = f"{path}:{number}", answer["id"]
        if prompt_id not in by_id:
            raise BatchError(
                f"{where}: answers {prompt_id!r}, which the input does not have. {_OTHER}"
            )
        if answer["prompt_sha256"] != by_id[prompt_id].sha256:
            raise BatchError(
                f"{where}: answers {prompt_id!r}, and line {by_id[prompt_id].number} of the input "
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


def put_in_order(path: Path, prompts: list[BatchPrompt]) -> None:
    """Put the answers to all prompts into the prompts' order.

    The file is replaced by one that is whole, at one stroke: to be killed meanwhile loses nothing.
    """
    found = path.read_bytes()
    *whole, _ = found.split(b"\n")
    by_id = {json.loads(line)["id"]: line for line in whole}
    ordered = b"".join(by_id[prompt.id] + b"\n" for prompt in prompts)
    if ordered == found:
        return
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.name}.ordered")
    try:
        with beside.open("wb") as file:
            shutil.copymode(target, beside)
            file.write(ordered)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("format") != FORMAT:
        raise BatchError(f"not an answer of this program ({FORMAT}). {_OTHER}")
    if (
        type(answer.get("id")) not in (str, int)
        or not isinstance(answer.get("made_with"), dict)
        or "prompt_sha256" not in answer
    ):
        raise BatchError(f"not a whole answer. {_OTHER}")
    return answer


def _is_torn_answer(rest: bytes) -> bool:
    """Whether what comes after the last line end may be a line of ours that broke off."""
    if not rest.startswith(_BEGINNING):
        return _BEGINNING.startswith(rest)
    text = rest.decode("utf-8", "replace")  # it may break off within a character
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return True  # it breaks off within the object
    except RecursionError:
        return False
    return end == len(text)  # all but the line end is there


def _differences(then: Any, now: Any, name: str = "") -> Iterator[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in then | now:
            yield from _differences(then.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif then != now:
        yield f"{name} was {json.dumps(then)} and is {json.dumps(now)}"
