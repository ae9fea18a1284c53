"""Many sequences side by side, padded: the plain way, to read and to compare with."""

import collections.abc
from collections.abc import Iterator

import torch

from augur_gen.cache import StaticKVCache
from augur_gen.fitting import check_fits_model
from augur_gen.sequence import Sequence
from augur_gen.steps import decode_step, prefill
from augur_gen.timing import Stopwatch
from augur_model import QwenForCausalLM


def generate_batch(
    model: QwenForCausalLM,
    sequences: collections.abc.Sequence[Sequence],
    *,
    chunk_size: int | None = None,
    stopwatch: Stopwatch | None = None,
) -> Iterator[dict[int, int]]:
    """Generate the continuations of many prompts, one token of each at a time.

    They lie in one cache, a row for each, as long as the longest with all it may say. Prompts are
    padded on the right. A row that has ended is dropped, and costs no more.

    Args:
        model: the network.
        sequences: each with its own prompt, stops, sampler, seed and constraint. They hold the
            result.
        chunk_size: as for `prefill`.
        stopwatch: for limits of time.

    Returns:
        an iterator of the new tokens of each step, by the sequence's place in `sequences`. Nothing
        is computed before the first is asked for. What a sampler or a constraint raises ends all.

    Raises:
        GenerationError: the model lacks a token that is named, or the positions.
    """
    for sequence in sequences:
        prompt, stop = sequence.prompt_token_ids, sequence.stop
        check_fits_model(model.config, prompt, stop, sequence.sampling)
    return _steps(model, sequences, chunk_size, stopwatch or Stopwatch(model.device))


def _steps(
    model: QwenForCausalLM,
    sequences: collections.abc.Sequence[Sequence],
    chunk_size: int | None,
    stopwatch: Stopwatch,
) -> Iterator[dict[int, int]]:
    began_s = stopwatch.read()
    rows = [place for place, one in enumerate(sequences) if one.finish_reason is None]
    if not rows:
        return
    prompts = [sequences[place].prompt_token_ids for place in rows]
    most = max(
        len(prompt) + sequences[place].stop.max_new_tokens
        for place, prompt in zip(rows, prompts, strict=True)
    )
    cache = StaticKVCache.for_model(model, most, batch_size=len(rows))
    lengths = [len(prompt) for prompt in prompts]
    padded = [prompt + [0] * (max(lengths) - len(prompt)) for prompt in prompts]
    token_ids = torch.tensor(padded, device=model.device)
    logits = prefill(model, token_ids, cache, num_tokens=lengths, chunk_size=chunk_size)
    while True:
        new = {}
        for place, row in zip(rows, logits[:, None], strict=True):
            new[place] = sequences[place].take(row)
            sequences[place].look_at_time(stopwatch.read() - began_s)
        yield new
        going = [row for row, place in enumerate(rows) if sequences[place].finish_reason is None]
        if not going:
            return
        if len(going) < len(rows):
            cache.keep_rows(going)
            rows = [rows[row] for row in going]
        token_ids = torch.tensor([sequences[place].next_input for place in rows])
        logits = decode_step(model, token_ids.to(model.device), cache)
