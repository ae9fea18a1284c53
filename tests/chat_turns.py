"""Turns of a conversation, and the same turns as fresh runs that know nothing of conversations."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from augur.answer import Answer
from augur.conversation import Conversation
from augur.llm import LLM
from augur.options import GenerationOptions
from augur_gen import (
    GenerationResult,
    SamplingParams,
    SequenceSampler,
    generate,
    process_logits,
)
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_tok import Tokenizer

TEXTS = (
    "Why is the sky blue?",
    "And at night?",
    "你好 🙂",
    "Name\ntwo lines.",
    "¿Por qué <|im_end|>?",
)

# Two ways of feeding the same tokens, at once or one by one, round differently: by about 1e-6 in a
# tiny model's logits. Where the two best are this far apart, the choice has to be the same; with a
# smaller gap the comparison would be a matter of luck, and another text has to be taken.
TINY_GAP = 1e-4


def write_chatty(folder: Path, **changes: object) -> Path:
    """A tiny checkpoint whose answers depend on what was said: with tied embeddings it repeats."""
    sizes = {"max_position_embeddings": 4096, "tie_word_embeddings": False, "seed": 1}
    return write_tiny_checkpoint(folder, **sizes | changes)


@contextmanager
def fed_lengths(model: nn.Module) -> Iterator[list[int]]:
    """Tokens of each forward pass, whoever asks for it."""
    lengths: list[int] = []

    def look(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        lengths.append(inputs[0].shape[1])

    handle = model.register_forward_pre_hook(look)
    try:
        yield lengths
    finally:
        handle.remove()


def ask(conversation: Conversation, text: str, options: GenerationOptions) -> Answer:
    """Ask, and hear the answer to its end."""
    with conversation.ask(text, options) as answer:
        for _ in answer:
            pass
    return answer


def fresh_ids(tokenizer: Tokenizer, messages: list[dict[str, str]]) -> list[int]:
    return tokenizer.encode_chat(messages, add_generation_prompt=True)


def fresh_answer(
    engine: LLM,
    messages: list[dict[str, str]],
    options: GenerationOptions,
    clear_gap: float = TINY_GAP,
) -> GenerationResult:
    """The answer of a model that starts with nothing in any cache.

    Fails where a greedy choice was so narrow that rounding might have decided it.
    """
    prompt = fresh_ids(engine.tokenizer, messages)
    params = options.sampling or SamplingParams(temperature=0)
    sampler = SequenceSampler(params, prompt)
    token_ids = list(prompt)

    def choose(logits: Tensor) -> Tensor:
        chosen = sampler(logits)
        if params.temperature == 0:
            scores = process_logits(logits, params, torch.tensor([token_ids]), len(prompt))
            best, second = scores[0].topk(2).values.tolist()
            assert best - second > clear_gap, "a near tie: take another text"
        token_ids.extend(chosen.tolist())
        return chosen

    stop = options.stop_conditions(engine.eos_token_ids)
    return generate(engine.model, prompt, stop, sampler=choose).run()


def fresh_answers(
    engine: LLM,
    texts: tuple[str, ...],
    options: GenerationOptions,
    clear_gap: float = TINY_GAP,
) -> list[GenerationResult]:
    """One fresh run for each turn, each over the whole conversation so far."""
    messages: list[dict[str, str]] = []
    results = []
    for text in texts:
        messages.append({"role": "user", "content": text})
        results.append(fresh_answer(engine, messages, options, clear_gap))
        said = engine.tokenizer.decode(results[-1].token_ids, skip_special_tokens=True)
        messages.append({"role": "assistant", "content": said})
    return results


def only(engine: LLM, characters: str, **changes: object) -> SamplingParams:
    """Greedy among these characters and the end of the turn, with a penalty on saying one again.

    So a random model makes text that is cut into the same tokens again; left alone, it would answer
    in bytes that are no text.
    """
    allowed = {engine.tokenizer.token_id(character): 0.0 for character in characters}
    vocab_size = engine.model.config.vocab_size
    # A random model seldom ends by itself: with this bias some answers end and some are cut.
    allowed[engine.tokenizer.token_id("<|im_end|>")] = 1.4
    logit_bias = dict.fromkeys(range(vocab_size), -math.inf) | allowed
    settings = {"temperature": 0, "frequency_penalty": 0.3, "logit_bias": logit_bias}
    return SamplingParams(**settings | changes)
