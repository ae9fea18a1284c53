"""Rungs of the Triton kernels, for `--rungs-from`: beside the plain ops, and as one CUDA graph."""

from augur_bench import Rung, cuda_graph
from augur_bench.cuda_graph import missing_cuda
from augur_kernels import TRITON

RUNGS = [
    Rung("triton", "Triton kernels", "sdpa", ops=TRITON),
    Rung(
        "triton-graph",
        "Triton kernels, the decode step recorded and replayed as one launch",
        "triton",
        ops=TRITON,
        new_steps=cuda_graph(),
        compiles=True,
        missing=missing_cuda,
    ),
]
