"""The least work of a pass, by hand, and what share of the limit follows."""

import pytest
import torch

from augur_bench.limits import Limits, measure_bandwidth, measure_matmul
from augur_bench.spread import Spread
from augur_bench.work import ModelSize, Work
from augur_gen import StaticKVCache
from augur_model import QwenConfig


def config(**changes):
    values = {
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "attention_bias": True,
        "tie_word_embeddings": True,
    }
    return QwenConfig(**(values | changes))


@pytest.fixture(scope="module")
def tied():
    """Qwen2.5 0.5B."""
    return ModelSize(config())


@pytest.fixture(scope="module")
def untied():
    """Qwen2.5 7B."""
    return ModelSize(
        config(
            vocab_size=152064,
            hidden_size=3584,
            intermediate_size=18944,
            num_hidden_layers=28,
            num_attention_heads=28,
            num_key_value_heads=4,
            head_dim=128,
            tie_word_embeddings=False,
        )
    )


# By hand, from the published shapes. 0.5B: a block has matrices q and o of 896 x 896, k and v of
# 128 x 896, and three of 4864 x 896; biases 896 + 128 + 128; two norms of 896. 7B: q and o of
# 3584 x 3584, k and v of 512 x 3584, three of 18944 x 3584; biases 3584 + 512 + 512.
TIED_BLOCK_MATRICES = 24 * (2 * 896 * 896 + 2 * 128 * 896 + 3 * 4864 * 896)
TIED_READ = 494_032_768
UNTIED_BLOCK_MATRICES = 28 * (2 * 3584 * 3584 + 2 * 512 * 3584 + 3 * 18944 * 3584)
UNTIED_ALL = 7_615_616_512
UNTIED_READ = UNTIED_ALL - 152064 * 3584


def test_the_tied_model_reads_every_weight_once(tied):
    assert tied.num_parameters == tied.num_read == TIED_READ
    assert tied.num_block_matrices == TIED_BLOCK_MATRICES == 357_826_560
    assert tied.num_head == 151936 * 896


def test_the_untied_model_reads_all_but_the_embedding(untied):
    assert untied.num_parameters == UNTIED_ALL
    assert untied.num_read == UNTIED_READ
    assert untied.num_block_matrices == UNTIED_BLOCK_MATRICES


def test_a_decoded_token_of_the_tied_model(tied):
    # 100 prompt tokens and 20 new ones: the steps look at 101 .. 119 tokens, 110 on average.
    work = tied.least_work(100, 20, torch.bfloat16)["decode"]
    cache = 2 * 24 * 2 * 64 * 110
    assert work.num_bytes == 2 * (TIED_READ + cache)
    attention = 4 * 24 * 14 * 64 * 110
    assert work.flops == 2 * 357_826_560 + attention + 2 * 151936 * 896


def test_a_decoded_token_of_the_untied_model(untied):
    # One row of the embedding, 3584 wide, beside what is always read.
    work = untied.least_work(100, 20, torch.float32)["decode"]
    cache = 2 * 28 * 4 * 128 * 110
    assert work.num_bytes == 4 * (UNTIED_READ + 3584 + cache)
    attention = 4 * 28 * 28 * 128 * 110
    assert work.flops == 2 * UNTIED_BLOCK_MATRICES + attention + 2 * 152064 * 3584


def test_a_sliding_window_cuts_off_what_is_looked_at():
    # 12 layers look at all 101 .. 119 tokens, 110 on average; 12 at the last 105 alone:
    # 101, 102, 103, 104 and fifteen times 105.
    windowed = ModelSize(config(attention_windows=(None,) * 12 + (105,) * 12))
    work = windowed.least_work(100, 20, torch.float32)["decode"]
    attended = 12 * 110 + 12 * (101 + 102 + 103 + 104 + 15 * 105) / 19
    assert work.num_bytes == pytest.approx(4 * (TIED_READ + 2 * 2 * 64 * attended), rel=1e-12)
    flops = 2 * 357_826_560 + 4 * 14 * 64 * attended + 2 * 151936 * 896
    assert work.flops == pytest.approx(flops, rel=1e-12)


def test_a_prompt_of_the_tied_model(tied):
    # Token i looks at i tokens: 50.5 on average over 100. Only the last needs the head.
    work = tied.least_work(100, 20, torch.float32)["prefill"]
    attention = 4 * 24 * 14 * 64 * sum(range(1, 101))
    assert work.flops == 100 * 2 * 357_826_560 + attention + 2 * 151936 * 896
    assert work.num_bytes == 4 * (TIED_READ + 2 * 24 * 2 * 64 * 100)


def test_a_prompt_of_the_untied_model_reads_a_row_of_the_embedding_for_each_token(untied):
    work = untied.least_work(100, 20, torch.float32)["prefill"]
    assert work.num_bytes == 4 * (UNTIED_READ + 100 * 3584 + 2 * 28 * 4 * 128 * 100)


def test_a_single_token_has_no_decode(tied):
    assert tied.least_work(100, 1, torch.float32)["decode"] is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cache_bytes_are_those_of_a_real_cache(tied, dtype):
    cache = StaticKVCache(tied.config, 37, dtype=dtype, device="cpu")
    assert tied.cache_bytes(37, dtype) == cache.num_bytes


LIMITS = Limits(
    bytes_per_s=Spread(9.0, 8.0, 10.0),
    flops_per_s={"float32": Spread(90, 80, 100), "bfloat16": Spread(6, 5, 7)},
)


def test_the_share_is_the_least_time_over_the_time_taken():
    # 20 bytes at 10 bytes/s take 2 s, 50 FLOPs at 100 FLOP/s half a second; it took 4 s.
    share = LIMITS.share(Work(20, 50), Spread(4.0, 2.5, 5.0), "float32")
    assert share["bandwidth"] == {"median": 0.5, "low": 0.4, "high": 0.8}
    assert share["compute"] == {"median": 0.125, "low": 0.1, "high": 0.2}
    assert share["of_roofline"] == share["bandwidth"]
    assert share["bound"] == "bandwidth"


def test_the_nearer_limit_is_the_one_that_counts():
    share = LIMITS.share(Work(1, 200), Spread(4.0, 4.0, 4.0), "float32")
    assert share["bound"] == "compute"
    assert share["of_roofline"]["median"] == 0.5


def test_the_best_of_all_readings_is_the_limit():
    once = Limits(Spread(5, 5, 5), {"float32": Spread(70, 70, 70)})
    again = Limits(Spread(8, 8, 8), {"float32": Spread(60, 60, 60)})
    best = Limits.of([once, again])
    assert (best.bytes_per_s.high, best.flops_per_s["float32"].high) == (8, 70)


def test_a_dtype_that_is_only_emulated_is_held_against_float32():
    assert LIMITS.roof_flops_per_s("bfloat16") == 100


def test_a_dtype_of_its_own_speed_is_held_against_that():
    limits = Limits(LIMITS.bytes_per_s, LIMITS.flops_per_s | {"bfloat16": Spread(700, 600, 800)})
    assert limits.roof_flops_per_s("bfloat16") == 800


@pytest.mark.gate
def test_this_machine_has_limits():
    assert measure_bandwidth(torch.device("cpu")) > 1e8
    assert measure_matmul(torch.device("cpu"), torch.float32) > 1e8
