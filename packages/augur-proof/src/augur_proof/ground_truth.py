"""The ground-truth file: transformers' answers, kept in one safetensors file.

- tensor `first_token_logits`, `[prompts, vocab_size]`, in the dtype they were computed in: row i
  is what the first new token of prompt i was chosen from;
- metadata `format`: this layout's name and version;
- metadata `prompts`: JSON, a list of objects with `prompt`, `input_ids` and `generated_ids`;
- metadata `made_with`: JSON, see `MadeWith`.

A safetensors file starts with the length of a JSON header, eight bytes, little-endian; a few lines
of any language read it.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from augur_proof.answer import Answer
from augur_proof.errors import ProofError
from augur_proof.made_with import MadeWith
from augur_proof.tolerance import DTYPES

FORMAT = "augur-ground-truth/1"
LOGITS = "first_token_logits"
_KEYS = {"prompt": str, "input_ids": list, "generated_ids": list}


@dataclass(frozen=True)
class GroundTruth:
    """Answers, and what they were made with."""

    made_with: MadeWith
    answers: list[Answer]

    def cut(self, max_new_tokens: int | None) -> "GroundTruth":
        """The same with at most so many new tokens for each prompt; None keeps all.

        Raises:
            ProofError: more than were recorded.
        """
        if max_new_tokens is None:
            return self
        if max_new_tokens > self.made_with.max_new_tokens:
            raise ProofError(
                f"{max_new_tokens} new tokens were asked for, and the truth was recorded with "
                f"{self.made_with.max_new_tokens}. Ask for fewer, or record more"
            )
        kept = slice(max_new_tokens)
        answers = [
            replace(one, generated_ids=one.generated_ids[kept], logits=one.logits[kept])
            for one in self.answers
        ]
        return GroundTruth(replace(self.made_with, max_new_tokens=max_new_tokens), answers)


def write_ground_truth(path: Path, truth: GroundTruth) -> None:
    """Write the file beside its place and move it there when whole.

    Of each answer's logits the first row is kept.

    Raises:
        ProofError: it cannot be written.
    """
    prompts = [{key: getattr(answer, key) for key in _KEYS} for answer in truth.answers]
    metadata = {
        "format": FORMAT,
        "prompts": json.dumps(prompts, ensure_ascii=False),
        "made_with": json.dumps(truth.made_with.to_json(), ensure_ascii=False),
    }
    logits = torch.stack([answer.logits[0] for answer in truth.answers])
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(save({LOGITS: logits}, metadata))
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ProofError(f"{path}: cannot be written: {error.strerror}") from error


def read_ground_truth(path: Path) -> GroundTruth:
    """Read a file that `write_ground_truth` wrote, all of it checked.

    Raises:
        ProofError: it cannot be read, or is something else.
    """
    if not path.is_file():
        found = "there is no such file"
        if path.is_dir():
            found = "is a folder, expected a ground-truth file"
        raise ProofError(f"{path}: {found}. Make one with: parity.py record")
    try:
        with safe_open(path, framework="pt") as handle:
            metadata = handle.metadata() or {}
            names = list(handle.keys())
            logits = handle.get_tensor(LOGITS) if LOGITS in names else torch.empty(0)
        if metadata.get("format") != FORMAT:
            found = metadata.get("format", "no format")
            raise ProofError(f"not a ground truth of this version: {found}, expected {FORMAT}")
        made_with = MadeWith.from_json(_json(metadata, "made_with"))
        prompts = _prompts(_json(metadata, "prompts"))
        _check_logits(logits, made_with, len(prompts))
    except ProofError as error:
        raise ProofError(f"{path}: {error}. Make the file again: parity.py record") from error
    except (OSError, SafetensorError) as error:
        raise ProofError(
            f"{path}: not a whole safetensors file ({error}). Make it again: parity.py record"
        ) from error
    pairs = zip(prompts, logits[:, None], strict=True)
    return GroundTruth(made_with, [Answer(**entry, logits=row) for entry, row in pairs])


def _json(metadata: dict[str, str], key: str) -> Any:
    try:
        return json.loads(metadata.get(key, ""))
    except ValueError as error:
        raise ProofError(f"metadata {key} is not JSON ({error})") from error


def _prompts(values: Any) -> list[dict[str, Any]]:
    if not isinstance(values, list) or not values:
        raise ProofError("metadata prompts is no list, or empty")
    for number, entry in enumerate(values, start=1):
        if not isinstance(entry, dict) or set(entry) != set(_KEYS):
            raise ProofError(f"prompt {number} is {entry!r}, expected the keys {', '.join(_KEYS)}")
        for key, kind in _KEYS.items():
            value = entry[key]
            ids_alone = kind is str or all(type(one) is int and one >= 0 for one in value)
            if type(value) is not kind or not value or not ids_alone:
                expected = "text" if kind is str else "token ids, at least one"
                raise ProofError(f"prompt {number}: {key} is {value!r}, expected {expected}")
    return values


def _check_logits(logits: Tensor, made_with: MadeWith, num_prompts: int) -> None:
    dtype = DTYPES[made_with.dtype]
    if logits.dtype != dtype or logits.dim() != 2 or logits.shape[0] != num_prompts:
        raise ProofError(
            f"tensor {LOGITS} is {logits.dtype} {list(logits.shape)}, "
            f"expected {dtype} [{num_prompts}, vocab_size]"
        )
