"""What was asked for, settled."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from augur.devices import DTypeName
from augur_bench.rung import Rung
from augur_bench.worker_process import WorkerProcess
from augur_bench.workload import Workload


@dataclass(frozen=True)
class Settings:
    """One run of the bench.

    Attributes:
        folder: of the checkpoint.
        device: such as "cpu" or "cuda:0".
        dtype: of the rungs that do not say.
        threads: for torch on the CPU; None leaves its own choice.
        workload: what the rungs do.
        vocab_size: rows of the model's head.
        max_new_tokens: in each timed run.
        check_tokens: of each reference prompt, compared with the reference.
        rounds: processes of each rung, one after the other.
        repeats: timed runs in each.
        rung_seconds: for a rung's runs. A round does not begin another one that would take it
            beyond its part of this; there are two in all at the least.
        rungs_from: a file with more rungs.
        scratch: a folder for this run alone.
    """

    folder: Path
    device: str
    dtype: DTypeName
    threads: int | None
    workload: Workload
    vocab_size: int
    max_new_tokens: int
    check_tokens: int
    rounds: int
    repeats: int
    rung_seconds: float
    rungs_from: Path | None
    scratch: Path

    def dtype_of(self, rung: Rung) -> DTypeName:
        """The dtype a rung runs in here."""
        return rung.dtype or self.dtype

    def worker(self, name: str) -> WorkerProcess:
        """Start a worker, with a folder of its own: it finds nothing compiled by another."""
        scratch = Path(tempfile.mkdtemp(dir=self.scratch))
        return WorkerProcess(name, self.device, self.threads, scratch)

    def load_arguments(self, rung: Rung) -> dict[str, str | None]:
        """What a worker is told to load."""
        return {
            "rung": rung.name,
            "rungs_from": None if self.rungs_from is None else str(self.rungs_from.resolve()),
            "folder": str(self.folder.resolve()),
            "dtype": self.dtype_of(rung),
        }
