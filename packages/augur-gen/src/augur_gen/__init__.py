"""Logits to tokens: KV cache, prefill and decode, stopping, sampling."""

from augur_gen.block_pool import BLOCK_SIZE, BlockPool, BlockTable
from augur_gen.cache import StaticKVCache
from augur_gen.errors import ArgumentError, CacheFullError, GenerationError
from augur_gen.generate import generate
from augur_gen.generation import Generation, GenerationResult
from augur_gen.logits_pipeline import process_logits
from augur_gen.logprobs import TokenLogprobs
from augur_gen.packed_forward import PackedForward, packed_forward, packed_forward_by_sequence
from augur_gen.packed_pass import PackedPass
from augur_gen.padded_batch import generate_batch
from augur_gen.paged_cache import PagedKVCache
from augur_gen.request import Request
from augur_gen.sampling import Sampler, draw, greedy
from augur_gen.sampling_params import SamplingParams
from augur_gen.scheduler import Scheduler, StepResult
from augur_gen.sequence import Constraint, Sequence
from augur_gen.sequence_sampler import SequenceSampler
from augur_gen.steps import CachedSteps, Steps, UncachedSteps, decode_step, prefill
from augur_gen.stop_strings import StopStrings
from augur_gen.stopping import FinishReason, StopConditions
from augur_gen.text_stream import TextStream
from augur_gen.timing import Stopwatch, Timings
from augur_gen.token_text import TextResult, TokenDecoder, TokenText

__all__ = [
    "BLOCK_SIZE",
    "ArgumentError",
    "BlockPool",
    "BlockTable",
    "CacheFullError",
    "CachedSteps",
    "Constraint",
    "FinishReason",
    "Generation",
    "GenerationError",
    "GenerationResult",
    "PackedForward",
    "PackedPass",
    "PagedKVCache",
    "Request",
    "Sampler",
    "SamplingParams",
    "Scheduler",
    "Sequence",
    "SequenceSampler",
    "StaticKVCache",
    "StepResult",
    "Steps",
    "StopConditions",
    "StopStrings",
    "Stopwatch",
    "TextResult",
    "TextStream",
    "Timings",
    "TokenDecoder",
    "TokenLogprobs",
    "TokenText",
    "UncachedSteps",
    "decode_step",
    "draw",
    "generate",
    "generate_batch",
    "greedy",
    "packed_forward",
    "packed_forward_by_sequence",
    "prefill",
    "process_logits",
]
