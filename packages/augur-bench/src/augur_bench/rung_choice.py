"""Which rungs a run has: the ladder's, those of a file of the user's, and the peers'."""

import importlib.util
import sys
from contextlib import redirect_stdout
from pathlib import Path

from augur_bench.errors import BenchError
from augur_bench.ladder import COMPANY, LADDER, PEERS, PLAIN, REFERENCE, PeerName
from augur_bench.rung import Rung


def all_rungs(rungs_from: Path | None) -> dict[str, Rung]:
    """The ladder and the rungs for many sequences, with the rungs of a file behind them.

    Args:
        rungs_from: a Python file with `RUNGS`, a list of `Rung`.

    Raises:
        BenchError: the file does not run, has no such list, a rung in it is not possible, a name is
            taken, or a parent is not there.
    """
    rungs = LADDER | COMPANY
    for rung in [] if rungs_from is None else _rungs_of_file(rungs_from):
        if rung.name in rungs or rung.name in PEERS or rung.name == REFERENCE.name:
            raise BenchError(f"{rungs_from}: there is a rung {rung.name} already; rename it")
        rungs[rung.name] = rung
    for rung in rungs.values():  # behind the loop: a file may name a rung before its parent
        others = [name for name in (*rungs, *PEERS) if name != rung.name]
        if rung.parent is not None and rung.parent not in others:
            raise BenchError(
                f"{rungs_from}: rung {rung.name} has the parent {rung.parent!r}, expected another "
                f"rung: {', '.join(others)}"
            )
    return rungs


def find_rung(name: str, rungs_from: Path | None) -> Rung:
    """The rung, peer or reference of that name, which must exist."""
    return (all_rungs(rungs_from) | PEERS | PLAIN | {REFERENCE.name: REFERENCE})[name]


def choose_rungs(names: str | None, rungs_from: Path | None = None) -> list[Rung]:
    """The rungs of a comma-separated list, in the ladder's order; None is all but `COMPANY`.

    Raises:
        BenchError: there is no such rung, or no name at all.
    """
    rungs = all_rungs(rungs_from)
    if names is None:
        return [rung for name, rung in rungs.items() if name not in COMPANY]
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in rungs]
    if unknown or not wanted:
        raise BenchError(
            f"--rungs {names}: there is no rung {', '.join(unknown) or 'in it'}. "
            f"There are: {', '.join(rungs)}"
        )
    return [rung for name, rung in rungs.items() if name in wanted]


def choose_pairs(rungs: list[Rung], against: PeerName | None = None) -> list[tuple[Rung, ...]]:
    """The rungs in the groups in which they are measured: alone, or with the peer they answer to.

    Raises:
        BenchError: none of the rungs has such a peer.
    """
    if against is None:
        return [(rung,) for rung in rungs]
    peers = {peer.parent: peer for name, peer in PEERS.items() if name.startswith(against)}
    if not any(rung.name in peers for rung in rungs):
        raise BenchError(
            f"--against {against} is measured beside {' and '.join(str(name) for name in peers)}; "
            "ask for one of them in --rungs"
        )
    return [(rung, peers[rung.name]) if rung.name in peers else (rung,) for rung in rungs]


def _rungs_of_file(path: Path) -> list[Rung]:
    """The file's `RUNGS`. What it prints goes to stderr: stdout is the result's."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise BenchError(f"--rungs-from {path}: expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    # As with `python FILE`: what lies beside it can be imported.
    sys.path.append(str(path.parent))
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except BenchError as error:
        raise BenchError(f"--rungs-from {path}: {error}") from error
    except (Exception, SystemExit) as error:  # whatever the file does when it is run
        raise BenchError(f"--rungs-from {path}: {type(error).__name__}: {error}") from error
    rungs = getattr(module, "RUNGS", None)
    if not isinstance(rungs, list) or not all(isinstance(rung, Rung) for rung in rungs):
        raise BenchError(
            f"--rungs-from {path}: RUNGS is {type(rungs).__name__}, expected a list of "
            "augur_bench.Rung"
        )
    return rungs
