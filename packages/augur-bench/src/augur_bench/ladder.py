"""The ladder: each rung changes one thing. To add one, add an entry."""

from augur_bench.compiled import compiled, missing_compiler
from augur_bench.rung import Rung, uncached, with_ops
from augur_model import SDPA

REFERENCE = Rung(
    name="reference",
    changes="float32, eager attention, decode over the cache: what the others are held against",
    dtype="float32",
)

LADDER: dict[str, Rung] = {
    rung.name: rung
    for rung in (
        Rung(
            name="uncached",
            changes="recompute everything, all logits",
            prepare=uncached(logits_to_keep=None),
        ),
        Rung(
            name="last-logits",
            parent="uncached",
            changes="logits of the last position alone",
            prepare=uncached(logits_to_keep=1),
        ),
        Rung(
            name="cached",
            parent="last-logits",
            changes="keep keys and values of past tokens",
        ),
        Rung(
            name="sdpa",
            parent="cached",
            changes="fused attention",
            load=with_ops(SDPA),
        ),
        Rung(
            name="bfloat16",
            parent="sdpa",
            changes="weights, cache and sums in bfloat16",
            load=with_ops(SDPA),
            dtype="bfloat16",
        ),
        Rung(
            name="float16",
            parent="sdpa",
            changes="weights, cache and sums in float16",
            load=with_ops(SDPA),
            dtype="float16",
        ),
        Rung(
            name="compiled",
            parent="cached",
            changes="torch.compile of the decode step",
            prepare=compiled(),
            compiles=True,
            missing=missing_compiler,
        ),
    )
}
