"""Logits to tokens: KV cache, prefill and decode, stopping, sampling."""

from augur_gen.cache import StaticKVCache
from augur_gen.errors import CacheFullError, GenerationError
from augur_gen.generate import Generation, GenerationResult, generate
from augur_gen.sampling import Sampler, greedy
from augur_gen.steps import CachedSteps, Steps, UncachedSteps, decode_step, prefill
from augur_gen.stopping import FinishReason, StopConditions
from augur_gen.timing import Stopwatch, Timings

__all__ = [
    "CacheFullError",
    "CachedSteps",
    "FinishReason",
    "Generation",
    "GenerationError",
    "GenerationResult",
    "Sampler",
    "StaticKVCache",
    "Steps",
    "StopConditions",
    "Stopwatch",
    "Timings",
    "UncachedSteps",
    "decode_step",
    "generate",
    "greedy",
    "prefill",
]
