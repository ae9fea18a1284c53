"""Bit for bit: what a sequence gets in company is what it gets alone.

Alone means: one sequence, a `StaticKVCache`, `prefill` of the same chunks, which for a chunk of one
token is `decode_step`. The chunks are those in which the keys that it holds were computed: where it
found a prefix, those of whoever computed the prefix; where it was preempted, those since it was
admitted again. A chunk of which it found a part only is fed whole, and cut.
"""

import dataclasses
import random
from collections import Counter

import pytest
import torch
from torch import Tensor

from augur_gen import (
    BlockPool,
    BlockTable,
    GenerationError,
    Request,
    SamplingParams,
    Scheduler,
    Sequence,
    StaticKVCache,
    StopConditions,
    packed_forward_by_sequence,
    prefill,
)
from augur_gen.packed_pass import PackedPass
from augur_gen.prefix_index import PrefixIndex
from augur_model import EAGER, QwenForCausalLM, Yarn
from augur_model.ops import Pages

BLOCK, NUM_BLOCKS, MAX_RUNNING, MAX_STEP_TOKENS = 4, 19, 7, 24
LONGEST = BLOCK * NUM_BLOCKS
YARN = Yarn(4.0, 32, 1.2)
NETWORKS = {
    "heads shared by two": {},
    "one head, YaRN": {"num_attention_heads": 1, "num_key_value_heads": 1, "yarn": YARN},
    "each its own, windows": {"num_key_value_heads": 4, "attention_windows": (5, 12)},
    "shared by all, qwen3": {"num_key_value_heads": 1, "qk_norm": True, "attention_bias": False},
    "shared by three, a window, YaRN, tied": {
        "num_attention_heads": 6,
        "attention_windows": (None, 7),
        "yarn": YARN,
        "tie_word_embeddings": True,
    },
}
DTYPES = (torch.float32, torch.bfloat16, torch.float16)

Chunk = tuple[int, list[int]]
"""Where its first token stands, and its tokens."""


@pytest.fixture
def network(config):
    """`network(name, dtype)`: a model with random weights."""

    def make(name: str, dtype: torch.dtype = torch.float32) -> QwenForCausalLM:
        model = QwenForCausalLM(dataclasses.replace(config, **NETWORKS[name]))
        generator = torch.Generator().manual_seed(0)
        for parameter_name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in parameter_name else 0.0, 0.2, generator=generator)
        return model.to(dtype)

    return make


class WatchedPool(BlockPool):
    """Remembers which blocks each table was begun with."""

    def reuse(self, token_ids):
        table = super().reuse(token_ids)
        self.found[table] = list(table.blocks)
        return table


class Witness:
    """Stands where the forward pass is, and writes down in which chunks each key is computed."""

    def __init__(self, pool: WatchedPool) -> None:
        self.pool = pool
        pool.found = {}
        self.of_table: dict[BlockTable, list[Chunk]] = {}
        self.num_inherited: dict[BlockTable, int] = {}
        self.of_block: dict[int, list[Chunk]] = {}
        self.tables: list[BlockTable] = []

    def __call__(self, model, token_ids, packed, kept) -> Tensor:
        size, at = self.pool.block_size, 0
        self.tables = list(packed.tables)
        for table, count in zip(packed.tables, packed.counts, strict=True):
            start = table.length
            if table not in self.of_table:
                self.of_table[table] = self.inherited(table, start)
                self.num_inherited[table] = len(self.of_table[table])
            self.of_table[table].append((start, list(token_ids[at : at + count])))
            for block in table.blocks[start // size :]:
                self.of_block[block] = list(self.of_table[table])
            at += count
        return packed_forward_by_sequence(model, token_ids, packed, kept)

    def inherited(self, table, num_found: int) -> list[Chunk]:
        if num_found == 0:
            return []
        last = self.pool.found[table][(num_found - 1) // self.pool.block_size]
        return [chunk for chunk in self.of_block[last] if chunk[0] < num_found]


class Recorder:
    """A constraint that forbids nothing, keeps the logits, and may raise in place of an answer."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.logits: list[Tensor] = []
        self.fails_at = fails_at

    def mask(self, logits: Tensor) -> Tensor:
        self.logits.append(logits[0].clone())
        if len(self.logits) == self.fails_at:
            raise RuntimeError("a grammar that breaks")
        return logits

    def accept(self, token_id: int) -> None:
        pass


def lone_logits(model: QwenForCausalLM, chunks: list[Chunk]) -> list[Tensor]:
    """`[vocab_size]` after each chunk."""
    cache = StaticKVCache.for_model(model, LONGEST)
    logits = []
    for start, token_ids in chunks:
        cache.truncate(start)
        logits.append(prefill(model, torch.tensor([token_ids]), cache)[0])
    return logits


def laid_out(chunks: list[Chunk]) -> list[int]:
    token_ids: list[int] = []
    for start, of_chunk in chunks:
        token_ids[start:] = of_chunk
    return token_ids


def some_prompt(source: random.Random, vocab_size: int, earlier: list[Request]) -> list[int]:
    """Often begins as others do: a common stem, whole blocks of a prompt, a conversation."""
    stem = [token_id % vocab_size for token_id in range(7, 7 + source.choice((4, 13, 16, 24)))]
    kind = source.random()
    if kind < 0.3 or not earlier:
        stem = []
    elif kind < 0.5:
        request = source.choice(earlier[-20:])
        stem = request.token_ids(0, min(request.num_tokens, 32))
    elif kind < 0.8:
        prompt = source.choice(earlier[-5:]).sequence.prompt_token_ids
        return prompt[: len(prompt) // BLOCK * BLOCK] or prompt
    most = source.choice((2, 9, 24))
    return stem + [source.randrange(vocab_size) for _ in range(source.randint(1, most))]


def check_blocks(pool: BlockPool, tables: list[BlockTable]) -> None:
    """In use are as many as the sequences' tokens take, less what is shared."""
    pool.check_integrity(tables)
    taken = sum(-(-table.length // BLOCK) for table in tables)
    held = Counter(block for table in tables for block in table.blocks)
    assert pool.num_in_use == taken - sum(count - 1 for count in held.values())
    assert pool.num_in_use + pool.num_available == NUM_BLOCKS


def prove(model: QwenForCausalLM, seed: int, num_sequences: int, *, lone=None):
    """Answer many sequences that come, go, fail and are cancelled at random; compare every logit.

    Returns:
        how often what happened.
    """
    source, happened = random.Random(seed), Counter()
    pool = WatchedPool(
        model.config, NUM_BLOCKS, block_size=BLOCK, dtype=model.dtype, device=model.device
    )
    witness = Witness(pool)
    scheduler = Scheduler(
        model,
        pool,
        max_running=MAX_RUNNING,
        max_step_tokens=MAX_STEP_TOKENS,
        forward=witness,
    )
    recorders: dict[Request, Recorder] = {}
    tables: dict[Request, list[BlockTable]] = {}
    while len(recorders) < num_sequences or scheduler.has_work:
        arrivals = source.choice((0, 0, 1, 3))
        for _ in range(min(arrivals, num_sequences - len(recorders))):
            recorder = Recorder(source.randint(1, 6) if source.random() < 0.08 else None)
            sampler = SamplingParams(temperature=source.choice((0, 1)), seed=source.randrange(99))
            sequence = Sequence(
                some_prompt(source, model.config.vocab_size, list(recorders)),
                StopConditions(source.randint(1, 20), {source.randrange(60)}),
                sampler=sampler,
                constraint=recorder,
            )
            recorders[scheduler.add(sequence)] = recorder
        going = [*scheduler.running, *scheduler.waiting]
        if going and source.random() < 0.05:
            scheduler.cancel(source.choice(going))
            happened["cancelled"] += 1
        result = scheduler.step()
        for (request, _, _), table in zip(result.fed, witness.tables, strict=False):
            if table not in tables.setdefault(request, []):
                tables[request].append(table)
        happened["preempted"] += len(result.preempted)
        happened["failed"] += sum(request.error is not None for request in result.ended)
        happened["packed"] += len(result.fed) > 1 and any(n > 1 for _, _, n in result.fed)
        check_blocks(pool, [request.table for request in scheduler.running])
    assert pool.num_available == NUM_BLOCKS
    for request, recorder in recorders.items():
        compared = 0
        for table in tables.get(request, []):
            chunks = witness.of_table[table]
            token_ids = laid_out(chunks)
            assert token_ids == request.token_ids(0, len(token_ids)), "keys of other tokens"
            alone = list(zip(chunks, lone_logits(lone or model, chunks), strict=True))
            for (start, of_chunk), expected in alone[witness.num_inherited[table] :]:
                if start + len(of_chunk) < len(request.sequence.prompt_token_ids) + compared:
                    continue  # there was more to feed before the next token
                found = recorder.logits[compared]
                assert torch.equal(found, expected), f"token {compared} differs from the lone run"
                compared += 1
        assert compared == len(recorder.logits)
        happened["compared"] += compared
        happened["reused"] += request.num_reused_tokens > 0
        happened["copied"] += request.num_reused_tokens % BLOCK > 0
    return happened


EVENTS = ("cancelled", "preempted", "failed", "packed", "reused", "copied", "evicted", "compared")


@pytest.fixture
def evictions(monkeypatch) -> Counter[str]:
    counted: Counter[str] = Counter()
    forget = PrefixIndex.forget

    def counting(self, block):
        counted["evicted"] += 1
        forget(self, block)

    monkeypatch.setattr(PrefixIndex, "forget", counting)
    return counted


def test_every_logit_in_company_is_the_one_alone(network, evictions):
    model = network("each its own, windows", torch.float32)
    happened = prove(model, seed=1, num_sequences=60) + evictions
    assert all(happened[event] for event in EVENTS), happened


@pytest.mark.gate
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_logit_of_two_hundred_sequences_is_the_one_alone(network, evictions, name, dtype):
    happened = prove(network(name, dtype), seed=2, num_sequences=200) + evictions
    assert all(happened[event] > 3 for event in EVENTS), happened


def off(spoil):
    """A table of ops whose attention sees other pages than it is given."""

    def attention(query, key_blocks, value_blocks, pages: Pages, *how):
        pages = dataclasses.replace(pages, **spoil(pages))
        return EAGER.paged_attention(query, key_blocks, value_blocks, pages, *how)

    return dataclasses.replace(EAGER, paged_attention=attention)


WRONG_PAGES = {
    "a neighbour's table": lambda pages: {"tables": pages.tables.roll(1, 0)},
    "blocks in another order": lambda pages: {"tables": pages.tables.flip(1)},
    "a token short": lambda pages: {
        "lengths": tuple(map(max, pages.counts, (length - 1 for length in pages.lengths)))
    },
}


@pytest.mark.parametrize("spoil", WRONG_PAGES.values(), ids=WRONG_PAGES)
def test_attention_over_wrong_pages_fails_it(network, spoil):
    model, wrong = network("heads shared by two"), network("heads shared by two")
    wrong.ops = off(spoil)
    with pytest.raises(AssertionError, match="differs from the lone run"):
        prove(wrong, seed=1, num_sequences=20, lone=model)


def test_positions_that_are_one_off_fail_it(network, monkeypatch):
    init = PackedPass.__init__

    def one_off(self, pool, tables, counts):
        init(self, pool, tables, counts)
        self.positions = self.positions + (self.positions > 9)

    monkeypatch.setattr(PackedPass, "__init__", one_off)
    with pytest.raises(AssertionError, match="differs from the lone run"):
        prove(network("heads shared by two"), seed=1, num_sequences=20)


def test_a_token_that_is_stored_a_place_off_fails_it(network, monkeypatch):
    init = PackedPass.__init__

    def one_off(self, pool, tables, counts):
        init(self, pool, tables, counts)
        self._slots = self._slots - self._slots % BLOCK + (self._slots + 1) % BLOCK

    monkeypatch.setattr(PackedPass, "__init__", one_off)
    with pytest.raises(AssertionError, match="differs from the lone run"):
        prove(network("heads shared by two"), seed=1, num_sequences=20)


def test_prefixes_found_by_a_hash_alone_fail_it(network, monkeypatch):
    add, find = PrefixIndex.add, PrefixIndex.find

    def hashed(piece):
        return (sum(piece) % 5,)

    monkeypatch.setattr(PrefixIndex, "add", lambda self, *at: add(self, *at[:2], hashed(at[2])))
    monkeypatch.setattr(PrefixIndex, "find", lambda self, at: find(self, map(hashed, at)))
    with pytest.raises(AssertionError, match="keys of other tokens"):
        prove(network("heads shared by two"), seed=1, num_sequences=20)


def test_a_prefix_whose_blocks_were_overwritten_fails_it(network, monkeypatch):
    """As if the block had been given away, and were found still."""
    reuse = WatchedPool.reuse

    def stale(self, token_ids):
        table = reuse(self, token_ids)
        for block in table.blocks[:1]:
            self.keys[:, block] = self.keys[:, block - 1]
        return table

    monkeypatch.setattr(WatchedPool, "reuse", stale)
    with pytest.raises(AssertionError, match="differs from the lone run"):
        prove(network("heads shared by two"), seed=1, num_sequences=40)


def test_a_block_that_is_forgotten_after_the_one_it_follows_is_noticed(network, monkeypatch):
    """The index would find it after whatever comes into that place."""
    truncate = BlockPool.truncate

    def first_the_first(self, table, length):
        if length == 0:
            table.blocks.reverse()
        truncate(self, table, length)

    monkeypatch.setattr(BlockPool, "truncate", first_the_first)
    with pytest.raises(GenerationError, match="is forgotten"):
        prove(network("heads shared by two"), seed=1, num_sequences=40)
