"""Rungs from a file of the user's: run it, and check what it gives."""

import importlib.util
import sys
from contextlib import redirect_stdout
from pathlib import Path

from augur.devices import DTYPES
from augur_bench.errors import BenchError
from augur_bench.rung import Rung


def rungs_of_file(path: Path) -> list[Rung]:
    """The file's `RUNGS`, each checked by itself.

    What the file prints goes to stderr: stdout is the result's.

    Raises:
        BenchError: the file does not run, or has no such list, or a rung in it is not possible.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise BenchError(f"--rungs-from {path}: expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    # As with `python FILE`: what lies beside it can be imported.
    sys.path.append(str(path.parent))
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the file does when it is run
        raise BenchError(f"--rungs-from {path}: {type(error).__name__}: {error}") from error
    rungs = getattr(module, "RUNGS", None)
    if not isinstance(rungs, list) or not all(isinstance(rung, Rung) for rung in rungs):
        raise BenchError(
            f"--rungs-from {path}: RUNGS is {type(rungs).__name__}, expected a list of "
            "augur_bench.rung.Rung"
        )
    for rung in rungs:
        _check(rung, path)
    return rungs


def _check(rung: Rung, path: Path) -> None:
    """What tables and `--rungs` can show and name, in a dtype that there is."""
    name, changes = rung.name, rung.changes
    if not _is_one_line(name) or not name or "," in name or name != name.strip():
        raise BenchError(
            f"--rungs-from {path}: a rung has the name {name!r}, expected words on one line "
            "without a comma"
        )
    if not _is_one_line(changes):
        raise BenchError(
            f"--rungs-from {path}: rung {name}: changes is {changes!r}, expected words on one line"
        )
    if rung.dtype is not None and rung.dtype not in tuple(DTYPES):
        raise BenchError(
            f"--rungs-from {path}: rung {name}: dtype is {rung.dtype!r}, expected one of "
            f"{', '.join(DTYPES)}, or None for --dtype"
        )


def _is_one_line(text: object) -> bool:
    return isinstance(text, str) and text.isprintable()
