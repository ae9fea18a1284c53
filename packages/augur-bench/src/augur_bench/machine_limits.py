"""The limits as a run reads them: again and again between the rungs, the best counts."""

from collections.abc import Iterable
from typing import Any

from augur.devices import DTypeName
from augur_bench.limits import Limits
from augur_bench.spread import Spread
from augur_bench.worker_process import WorkerProcess


class LimitReadings:
    """Readings taken by a worker of their own, so that no rung's peak memory holds the buffers.

    On a busy machine a single reading is too low, and a rung would seem to beat the limit.

    Args:
        worker: with no model loaded.
        dtypes: to multiply matrices in; float32 is always among them.
    """

    def __init__(self, worker: WorkerProcess, dtypes: Iterable[DTypeName]) -> None:
        self._worker = worker
        self._dtypes = sorted({*dtypes, "float32"})
        self._answers: list[dict[str, Any]] = []

    def read(self) -> None:
        """One reading more."""
        self._answers.append(self._worker.ask("limits", dtypes=self._dtypes))

    def best(self) -> Limits:
        """What they come to."""
        return Limits(
            bytes_per_s=Spread.of(answer["bytes_per_s"] for answer in self._answers),
            flops_per_s={
                dtype: Spread.of(answer["flops_per_s"][dtype] for answer in self._answers)
                for dtype in self._dtypes
            },
        )
