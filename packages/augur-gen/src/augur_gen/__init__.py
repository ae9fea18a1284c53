"""Logits to tokens: KV cache, prefill and decode, stopping, sampling."""

from augur_gen.cache import StaticKVCache
from augur_gen.errors import ArgumentError, CacheFullError, GenerationError
from augur_gen.generate import generate
from augur_gen.generation import Generation, GenerationResult
from augur_gen.logits_pipeline import process_logits
from augur_gen.logprobs import TokenLogprobs
from augur_gen.sampling import Sampler, draw, greedy
from augur_gen.sampling_params import SamplingParams
from augur_gen.sequence import Constraint, Sequence
from augur_gen.sequence_sampler import SequenceSampler
from augur_gen.steps import CachedSteps, Steps, UncachedSteps, decode_step, prefill
from augur_gen.stop_strings import StopStrings
from augur_gen.stopping import FinishReason, StopConditions
from augur_gen.text_stream import TextResult, TextStream, TokenDecoder
from augur_gen.timing import Stopwatch, Timings

__all__ = [
    "ArgumentError",
    "CacheFullError",
    "CachedSteps",
    "Constraint",
    "FinishReason",
    "Generation",
    "GenerationError",
    "GenerationResult",
    "Sampler",
    "SamplingParams",
    "Sequence",
    "SequenceSampler",
    "StaticKVCache",
    "Steps",
    "StopConditions",
    "StopStrings",
    "Stopwatch",
    "TextResult",
    "TextStream",
    "Timings",
    "TokenDecoder",
    "TokenLogprobs",
    "UncachedSteps",
    "decode_step",
    "draw",
    "generate",
    "greedy",
    "prefill",
    "process_logits",
]
