"""A model and a prompt in, a generation out."""

from collections.abc import Sequence

from augur_gen.cache import StaticKVCache
from augur_gen.checked_values import checked_token_ids
from augur_gen.errors import GenerationError
from augur_gen.fitting import check_fits_model
from augur_gen.generation import Generation
from augur_gen.sampling import Sampler, greedy
from augur_gen.sampling_params import SamplingParams
from augur_gen.sequence import Constraint
from augur_gen.steps import CachedSteps, Steps, UncachedSteps
from augur_gen.stopping import StopConditions
from augur_gen.timing import Stopwatch
from augur_model import KVCache, QwenForCausalLM


def generate(
    model: QwenForCausalLM,
    prompt_token_ids: Sequence[int],
    stop: StopConditions,
    *,
    sampler: Sampler | SamplingParams = greedy,
    constraint: Constraint | None = None,
    cache: KVCache | None = None,
    earlier_token_ids: Sequence[int] = (),
    chunk_size: int | None = None,
    use_cache: bool = True,
    stopwatch: Stopwatch | None = None,
) -> Generation:
    """Generate the continuation of one prompt.

    Args:
        model: the network.
        prompt_token_ids: at least one, each in `0 .. vocab_size - 1`.
        stop: when to end.
        sampler: greedy, the raw argmax, unless parameters to sample with are given, or a function.
        constraint: what the sampler may choose from, a grammar say.
        cache: continue after what it holds. Left out: a new one of just the size needed.
        earlier_token_ids: what `cache` holds. Only a repetition penalty has to know.
        chunk_size: prompt tokens for each forward pass of the prefill. Left out: all at once.
        use_cache: False recomputes the whole sequence for every token: slow, kept as the baseline.
        stopwatch: for the timings, and for a limit of time.

    Returns:
        an iterator of token ids; nothing is computed before the first is asked for.

    Raises:
        GenerationError: an empty prompt, an id that is no integer or outside the vocabulary, more
            tokens than the model has positions, or options that exclude each other.
        CacheFullError: prompt and new tokens do not fit into `cache`.
    """
    vocab_size = model.config.vocab_size
    earlier_token_ids = checked_token_ids(earlier_token_ids, "the earlier tokens", vocab_size)
    num_cached = cache.length if cache is not None else 0
    params = sampler if isinstance(sampler, SamplingParams) else None
    check_fits_model(model.config, prompt_token_ids, stop, params, num_cached)
    if params is not None:
        _check_earlier(params, earlier_token_ids, num_cached)
    num_tokens = len(prompt_token_ids) + stop.max_new_tokens
    steps: Steps
    if use_cache:
        cache = StaticKVCache.for_model(model, num_tokens) if cache is None else cache
        cache.check_room(num_tokens)
        steps = CachedSteps(model, cache, chunk_size=chunk_size)
    elif cache is not None or chunk_size is not None:
        raise GenerationError("use_cache=False takes neither a cache nor a chunk_size")
    else:
        steps = UncachedSteps(model)
    return Generation(
        steps,
        prompt_token_ids,
        stop,
        device=model.device,
        sampler=sampler,
        constraint=constraint,
        earlier_token_ids=earlier_token_ids,
        stopwatch=stopwatch,
    )


def _check_earlier(
    params: SamplingParams, earlier_token_ids: Sequence[int], num_cached: int
) -> None:
    # Without the penalty nobody looks at them; with it, tokens left out would go unpenalised.
    if params.repetition_penalty != 1 and len(earlier_token_ids) != num_cached:
        raise GenerationError(
            f"the cache holds {num_cached} tokens and earlier_token_ids names "
            f"{len(earlier_token_ids)}; a repetition_penalty counts them, so give them all"
        )
