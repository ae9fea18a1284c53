"""The worker's end of the line: one JSON object in, one out, until stdin ends."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from augur_bench.errors import BenchError, RungFailedError
from augur_gen import GenerationError
from augur_model import ModelError
from augur_proof.errors import ProofError
from augur_weights import WeightsError

Command = Callable[..., dict[str, Any]]

# Errors whose message says all; others are somebody's bug, and need their traceback.
_EXPLAINED = (
    BenchError,
    RungFailedError,
    GenerationError,
    ModelError,
    ProofError,
    WeightsError,
)


def serve(commands: Mapping[str, Command]) -> None:
    """Answer requests from stdin on stdout.

    A request is `{"do": name, ...arguments}`; an answer is what the command gave, or
    `{"error": message}` where it raised.
    """
    # Whatever prints to stdout from here on would garble the answers.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for line in sys.stdin:
            answers.write(json.dumps(answer(commands, json.loads(line))) + "\n")
            answers.flush()


def answer(commands: Mapping[str, Command], request: dict[str, Any]) -> dict[str, Any]:
    """Carry out one request."""
    name = request.pop("do")
    try:
        return commands[name](**request)
    except _EXPLAINED as error:
        return {"error": str(error) or type(error).__name__}
    except (Exception, SystemExit) as error:  # a rung must not end the process unheard
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
