"""How much memory loading takes, seen from outside, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

LAYERS, ROWS, COLUMNS = 36, 1024, 2048

# Peaks are the kernel's: writing 5 to clear_refs sets the high-water mark back to what is resident
# now. Large blocks lie apart from the heap, so that what one measure frees is not there for the
# next.
MEASURE = """
import json, sys
from pathlib import Path
import torch
from augur_weights import Checkpoint, load_into

LAYERS, ROWS, COLUMNS = map(int, sys.argv[2:5])

def resident_bytes(key):
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024

def peak_bytes(work):
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = resident_bytes("VmRSS")
    kept = work()
    return resident_bytes("VmHWM") - before

def build():
    with torch.device("meta"):
        return torch.nn.ModuleList(
            torch.nn.Linear(COLUMNS, ROWS, bias=False) for _ in range(LAYERS)
        )

def tensor_by_tensor(dtype):
    module = build()
    load_into(module, Checkpoint(sys.argv[1]), dtype=dtype)
    return module

def all_at_once():
    checkpoint = Checkpoint(sys.argv[1])
    tensors = {name: checkpoint.tensor(name) for name in checkpoint.names}
    module = build().to_empty(device="cpu").float()
    module.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    return module

torch.ones(8, dtype=torch.bfloat16).float()
print(json.dumps([
    peak_bytes(lambda: tensor_by_tensor(None)),
    peak_bytes(lambda: tensor_by_tensor(torch.float32)),
    peak_bytes(all_at_once),
]))
"""


@pytest.mark.gate
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from Linux's /proc")
def test_loading_peaks_near_the_size_of_the_weights(write_checkpoint: Callable[..., Path]) -> None:
    layer = torch.ones(ROWS, COLUMNS, dtype=torch.bfloat16)
    folder = write_checkpoint({f"{number}.weight": layer.clone() for number in range(LAYERS)})
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), *map(str, (LAYERS, ROWS, COLUMNS))],
        capture_output=True,
        text=True,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**20)},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kept, converted, all_at_once = json.loads(done.stdout)
    num_parameters = LAYERS * ROWS * COLUMNS
    assert 2 * num_parameters * 0.9 < kept < 2 * num_parameters * 1.1 + 32e6
    assert 4 * num_parameters * 0.9 < converted < 4 * num_parameters * 1.1 + 32e6
    # The measure tells: the usual way of loading goes well beyond.
    assert all_at_once > 4 * num_parameters * 1.5
