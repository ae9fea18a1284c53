"""The prompts that a proof runs over."""

import json
from pathlib import Path

from augur_proof.errors import ProofError

_REFERENCE_PROMPTS = Path(__file__).with_name("reference_prompts.json")


def read_prompts(path: Path | None = None) -> list[str]:
    """The prompts of a JSON file, a list of strings.

    Left out: ten prompts, short and long, chat and code, English and not.

    Raises:
        ProofError: the file cannot be read, or is something else.
    """
    path = path or _REFERENCE_PROMPTS
    try:
        prompts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProofError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not JSON
        raise ProofError(f"{path}: not JSON in UTF-8 ({error})") from error
    if not isinstance(prompts, list) or not prompts:
        raise ProofError(f"{path}: expected a JSON list of prompts, at least one")
    for number, prompt in enumerate(prompts, start=1):
        if not isinstance(prompt, str) or not prompt:
            raise ProofError(f"{path}: prompt {number} is {prompt!r}, expected text")
    return prompts
