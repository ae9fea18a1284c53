"""The file of prompts: one JSON object a line, all of them checked before anything is computed.

    {"id": "sky", "prompt": "Why is the sky blue?"}
    {"messages": [{"role": "user", "content": "Hello"}], "max_new_tokens": 20, "seed": 7}

A line without an id has its number for one. Blank lines are passed over.
"""

import dataclasses
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from augur.batch.errors import BatchError, one_error_for_all
from augur.options import SEEDS, GenerationOptions
from augur_gen import GenerationError
from augur_weights import StrictJSONError, parse_json

PromptId = str | int

_KEYS = ("id", "prompt", "messages", "max_new_tokens", "seed")


@dataclass(frozen=True)
class BatchPrompt:
    """One line.

    Attributes:
        number: of the line, from 1.
        id: the line's own, or its number.
        content: the user's words, or the messages of a chat.
        max_new_tokens: in place of the common one; None where the line has none.
        seed: likewise.
        sha256: of what the line says, however it is spaced.
    """

    number: int
    id: PromptId
    content: str | list[dict[str, Any]]
    max_new_tokens: int | None
    seed: int | None
    sha256: str

    def options(self, common: GenerationOptions) -> GenerationOptions:
        """The options for this line.

        A seed of the line's own is used as it is. Else it is made of the common one and the id, so
        that an answer depends neither on its neighbours nor on their order.

        Raises:
            BatchError: what the line sets does not go with the common options.
        """
        options = common
        if self.max_new_tokens is not None:
            options = dataclasses.replace(options, max_new_tokens=self.max_new_tokens)
        try:
            options.stop_conditions(frozenset())
        except GenerationError as error:
            raise BatchError(str(error)) from None
        if options.sampling is None or not options.is_random:
            if self.seed is not None:
                raise BatchError("it has a seed, and without a temperature nothing is drawn")
            return options
        if self.seed is not None:
            return options.with_seed(self.seed)
        return options.with_seed(_seed_of(options.sampling.seed, self.id))


def read_prompts(path: Path, *, raw: bool = False, system: str | None = None) -> list[BatchPrompt]:
    """Read the whole file.

    Args:
        path: UTF-8.
        raw: the prompts go without a chat template, so messages are refused.
        system: a system message for every prompt, so messages, which bring theirs, are refused.

    Raises:
        BatchError: it cannot be read, or lines are wrong; each is named by its number.
    """
    beside = "raw text" if raw else None if system is None else "a system message"
    prompts: dict[PromptId, BatchPrompt] = {}
    with one_error_for_all(path) as errors:
        for number, line in enumerate(_read_text(path).split("\n"), start=1):
            if not line.strip():
                continue
            with errors.of_line(number):
                prompt = _prompt(number, _json_object(line), beside)
                if prompt.id in prompts:
                    first = prompts[prompt.id].number
                    raise BatchError(f"the id {prompt.id!r} is that of line {first} already")
                prompts[prompt.id] = prompt
    if not prompts:
        raise BatchError(f"{path}: no prompt in it, expected one JSON object a line")
    return list(prompts.values())


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8").removeprefix("\ufeff")
    except OSError as error:
        raise BatchError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise BatchError(f"{path}:{number}: not UTF-8 (byte {error.start} of the file)") from None


def _json_object(line: str) -> dict[str, Any]:
    try:
        found = parse_json(line)
    except StrictJSONError as error:
        raise BatchError(f"the line {error}") from None
    if not isinstance(found, dict):
        raise BatchError(f"{line.strip()[:60]!r}, expected a JSON object")
    return found


def _prompt(number: int, line: dict[str, Any], beside: str | None) -> BatchPrompt:
    unknown = [key for key in line if key not in _KEYS]
    if unknown:
        raise BatchError(f"{unknown[0]!r} is not supported, expected {', '.join(_KEYS)}")
    if ("prompt" in line) == ("messages" in line):
        raise BatchError('expected either "prompt" or "messages"')
    if "messages" in line and beside is not None:
        raise BatchError(f'{beside} does not go with "messages"; leave it out')
    prompt_id = line.get("id", number)
    if type(prompt_id) not in (str, int):  # bool is an int to Python
        raise BatchError(f"id is {prompt_id!r}, expected a string or a whole number")
    if "prompt" in line and not isinstance(line["prompt"], str):
        raise BatchError(f"prompt is {line['prompt']!r}, expected a string")
    if "messages" in line:
        _check_messages(line["messages"])
    for key, allowed, expected in (
        ("max_new_tokens", range(1, sys.maxsize), "1 up"),
        ("seed", SEEDS, "0 to 2**32 - 1"),
    ):
        if key in line and not (type(line[key]) is int and line[key] in allowed):
            raise BatchError(f"{key} is {line[key]!r}, expected a whole number from {expected}")
    return BatchPrompt(
        number=number,
        id=prompt_id,
        content=line["prompt"] if "prompt" in line else line["messages"],
        max_new_tokens=line.get("max_new_tokens"),
        seed=line.get("seed"),
        sha256=hashlib.sha256(json.dumps(line, sort_keys=True).encode()).hexdigest(),
    )


def _check_messages(messages: object) -> None:
    """What any chat must be; what a template wants beyond it, it says itself."""
    if not isinstance(messages, list) or not messages:
        raise BatchError(f"messages is {messages!r}, expected a list of at least one")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BatchError(f'a message is {message!r}, expected an object with a "role"')


def _seed_of(common_seed: int | None, prompt_id: PromptId) -> int:
    # JSON tells 1 from "1"
    of_this = f"{common_seed} {json.dumps(prompt_id)}".encode()
    return int.from_bytes(hashlib.sha256(of_this).digest()[:4], "big")
