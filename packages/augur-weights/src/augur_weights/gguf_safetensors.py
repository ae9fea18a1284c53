"""Writing a GGUF file's tensors as one ``model.safetensors`` in bfloat16.

The header comes first, since sizes are known before any value is, and the values follow in chunks:
memory stays at a few of them, where the safetensors library's writer wants all tensors at once.
"""

import json
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from augur_weights.gguf_dequantize import to_bfloat16
from augur_weights.gguf_file import GGUFFile, TensorInfo
from augur_weights.progress import Progress

_BFLOAT16_BYTES = 2
_CHUNK_ELEMENTS = 2**20
_THREADS = 2
# Chunks that may be read and converted ahead of the one being written.
_AHEAD = 2 * _THREADS


def bfloat16_bytes(tensors: dict[str, TensorInfo]) -> int:
    """How many bytes the tensors take in bfloat16."""
    return sum(math.prod(tensor.shape) for tensor in tensors.values()) * _BFLOAT16_BYTES


def write_safetensors(
    path: Path, gguf: GGUFFile, tensors: dict[str, TensorInfo], progress: Progress | None
) -> None:
    """Dequantize tensors, round them to bfloat16 and write them to ``path`` in their order.

    Raises:
        GGUFError: a tensor's values cannot be read or are not finite.
        OSError: the file cannot be written.
    """
    total = bfloat16_bytes(tensors)
    done = 0
    with path.open("wb") as stream:
        stream.write(_header(tensors))
        for values in _converted(gguf, tensors):
            stream.write(values)
            done += len(values)
            if progress is not None:
                progress("import", done, total)


def _header(tensors: dict[str, TensorInfo]) -> bytes:
    """Length and JSON of safetensors' header, padded so that values start at a multiple of 8."""
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, tensor in tensors.items():
        end = start + math.prod(tensor.shape) * _BFLOAT16_BYTES
        place = {"shape": list(tensor.shape), "data_offsets": [start, end]}
        entries[name] = {"dtype": "BF16", **place}
        start = end
    text = json.dumps(entries, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _converted(gguf: GGUFFile, tensors: dict[str, TensorInfo]) -> Iterator[memoryview]:
    """The bfloat16 bytes of all tensors, chunk by chunk, in order."""
    pool = ThreadPoolExecutor(_THREADS)
    running: deque[Future[memoryview]] = deque()
    try:
        for tensor in tensors.values():
            for blocks in _chunks(gguf, tensor):
                running.append(pool.submit(to_bfloat16, blocks, tensor, gguf.path))
                if len(running) > _AHEAD:
                    yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _chunks(gguf: GGUFFile, tensor: TensorInfo) -> Iterator[bytearray]:
    size = _CHUNK_ELEMENTS // tensor.type.block_elements * tensor.type.block_bytes
    for start in range(0, tensor.num_bytes, size):
        yield gguf.read(tensor, start, min(size, tensor.num_bytes - start))
