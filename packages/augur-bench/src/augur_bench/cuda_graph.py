"""The decode step as a CUDA graph: recorded once, and replayed for every token.

On a GPU a small model's decode step is hundreds of kernels of a few microseconds, and launching one
takes as long. A graph launches them all at once. What it recorded are addresses, so token, position
and cache keep theirs: a new sequence takes the memory of the one before.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from augur_bench.compiled import CompiledSteps, block, check_windows
from augur_gen import StaticKVCache, Steps
from augur_model import QwenForCausalLM
from augur_proof import NewSteps

Record = Callable[[Callable[[], Tensor]], Callable[[], Tensor]]
"""What computes a tensor -> what computes it again, in the same memory."""


def cuda_graph(record: Record | None = None) -> NewSteps:
    """Prefill as it stands; decode by a graph. One sequence at a time.

    Args:
        record: None records CUDA's graphs; another is for trying the steps without a GPU.
    """
    kept: dict[tuple[int, int], _GraphSteps] = {}

    def new_steps(model: QwenForCausalLM, capacity: int) -> Steps:
        check_windows(model, capacity)
        steps = kept.get((id(model), capacity))
        if steps is None:
            kept.clear()  # of another model or size
            cache = StaticKVCache.for_model(model, capacity)
            steps = kept[id(model), capacity] = _GraphSteps(model, cache, record or _cuda_graph)
        steps.begin()
        return steps

    return new_steps


def missing_cuda(device: torch.device) -> str | None:
    """What keeps graphs from being recorded here; None where nothing does."""
    return None if device.type == "cuda" else "it records CUDA's graphs, and this is no CUDA device"


class _GraphSteps(CompiledSteps):
    def __init__(self, model: QwenForCausalLM, cache: StaticKVCache, record: Record) -> None:
        super().__init__(model, cache, block)
        self._record = record
        self._token_ids = torch.zeros((1, 1), dtype=torch.int64, device=model.device)
        self._position = torch.zeros(1, dtype=torch.int64, device=model.device)
        self._replay: Callable[[], Tensor] | None = None

    def begin(self) -> None:
        self._cache.truncate(0)

    @torch.inference_mode()
    def decode(self, token_ids: Tensor) -> Tensor:
        """`[1, 1]` -> `[1, vocab_size]`."""
        self._cache.check_room(1)
        self._token_ids.copy_(token_ids)
        self._position.fill_(self._cache.length)
        if self._replay is None:
            self._replay = self._record(lambda: self._forward(self._token_ids, self._position))
        logits = self._replay().clone()  # the next replay writes there again
        self._cache.advance(1)
        return logits


def _cuda_graph(compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
    # What libraries and kernels set up at their first calls cannot be recorded.
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            compute()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = compute()

    def replay() -> Tensor:
        graph.replay()
        return recorded

    return replay
