"""Which rungs a run has: the ladder's, a file's, and the peers'."""

from pathlib import Path

from augur_bench.errors import BenchError
from augur_bench.ladder import LADDER, REFERENCE
from augur_bench.peers import PEERS, PeerName
from augur_bench.rung import Rung
from augur_bench.rung_file import rungs_of_file


def all_rungs(rungs_from: Path | None) -> dict[str, Rung]:
    """The ladder, with the rungs of a file behind it.

    Args:
        rungs_from: a Python file with `RUNGS`, a list of `Rung`.

    Raises:
        BenchError: the file does not run, has no such list, a rung in it is not possible, a name is
            taken, or a parent is not there.
    """
    rungs = dict(LADDER)
    for rung in [] if rungs_from is None else rungs_of_file(rungs_from):
        if rung.name in rungs or rung.name in PEERS or rung.name == REFERENCE.name:
            raise BenchError(f"{rungs_from}: there is a rung {rung.name} already; rename it")
        rungs[rung.name] = rung
    for rung in rungs.values():
        # Behind the loop: a file may name a rung before its parent.
        if rung.parent == rung.name:
            raise BenchError(f"{rungs_from}: rung {rung.name} is its own parent; name another")
        if rung.parent is not None and rung.parent not in rungs | PEERS:
            raise BenchError(
                f"{rungs_from}: rung {rung.name} has the parent {rung.parent!r}, and there is no "
                f"such rung. There are: {', '.join([*rungs, *PEERS])}"
            )
    return rungs


def find_rung(name: str, rungs_from: Path | None) -> Rung:
    """The rung, peer or reference of that name, which must exist."""
    return (all_rungs(rungs_from) | PEERS | {REFERENCE.name: REFERENCE})[name]


def choose_rungs(names: str | None, rungs_from: Path | None) -> list[Rung]:
    """The rungs of a comma-separated list, in the ladder's order; None is all.

    Raises:
        BenchError: there is no such rung, or no name at all.
    """
    rungs = all_rungs(rungs_from)
    if names is None:
        return list(rungs.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in rungs]
    if unknown or not wanted:
        raise BenchError(
            f"--rungs {names}: there is no rung {', '.join(unknown) or 'in it'}. "
            f"There are: {', '.join(rungs)}"
        )
    return [rung for name, rung in rungs.items() if name in wanted]


def choose_pairs(rungs: list[Rung], against: PeerName | None) -> list[tuple[Rung, ...]]:
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
