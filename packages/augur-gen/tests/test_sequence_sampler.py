"""Sampling a sequence: repeatable, with a memory, and true to the plain pipeline."""

import dataclasses
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import Tensor

from augur_gen import (
    GenerationError,
    SamplingParams,
    SequenceSampler,
    StaticKVCache,
    StopConditions,
    draw,
    generate,
    greedy,
    process_logits,
)

VOCAB = 300
PROMPT = [5, 5, 7, 250, 11]

EVERYTHING = {
    "temperature": 1.3,
    "top_k": 40,
    "top_p": 0.9,
    "min_p": 0.01,
    "repetition_penalty": 1.2,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.25,
    "logit_bias": {3: 4.0, 9: -1.0},
}
PARAMS = {
    "plain": {},
    "top_k": {"top_k": 20},
    "top_p": {"top_p": 0.7},
    "flat top_p": {"temperature": 5.0, "top_p": 0.95},
    "min_p": {"min_p": 0.1},
    "usual": {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05},
    "everything": EVERYTHING,
    "greedy with everything": EVERYTHING | {"temperature": 0},
}


def random_rows(count: int, seed: int = 0, vocab_size: int = VOCAB) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, vocab_size, generator=generator) * 2


def sample_all(rows: Tensor, params: SamplingParams, prompt: list[int] = PROMPT) -> list[int]:
    sampler = SequenceSampler(params, prompt)
    return [int(sampler(row[None])[0]) for row in rows]


@pytest.mark.parametrize("name", PARAMS)
def test_each_token_is_drawn_from_the_plain_pipelines_logits_by_the_seeds_next_number(name):
    rows, params = random_rows(150), SamplingParams(seed=11, **PARAMS[name])
    found = sample_all(rows, params)
    numbers = torch.Generator().manual_seed(11)
    for index, row in enumerate(rows):
        so_far = torch.tensor([PROMPT + found[:index]])
        logits = process_logits(row[None], params, so_far, len(PROMPT))
        if params.temperature == 0:
            expected = greedy(logits)
        else:
            expected = draw(logits, torch.rand(1, dtype=torch.float64, generator=numbers))
        assert found[index] == int(expected)
    assert len(set(found)) > 20, "a text of few tokens would prove little"


@pytest.mark.gate
def test_one_hundred_thousand_tokens_have_the_distribution_of_the_pipeline():
    """All at once: that single draws do the same is what the test above says."""
    params = SamplingParams(temperature=0.8, top_k=25, top_p=0.9, min_p=0.01)
    logits = process_logits(random_rows(1), params, torch.tensor([PROMPT]), len(PROMPT))
    generator = torch.Generator().manual_seed(5)
    numbers = torch.rand(100_000, dtype=torch.float64, generator=generator)
    counts = draw(logits.expand(100_000, -1), numbers).bincount(minlength=VOCAB)
    support = logits[0] > -torch.inf
    assert 5 < int(support.sum()) < 25
    assert torch.equal(counts > 0, support)
    expected = logits[0].softmax(-1)[support].double() * 100_000
    statistic = float(((counts[support] - expected) ** 2 / expected).sum())
    degrees_of_freedom = torch.tensor((int(support.sum()) - 1) / 2, dtype=torch.float64)
    assert torch.special.gammaincc(degrees_of_freedom, torch.tensor(statistic / 2)) > 1e-3


def test_single_numbers_of_a_seed_are_those_drawn_at_once():
    one_by_one, at_once = (torch.Generator().manual_seed(5) for _ in range(2))
    singles = [torch.rand(1, dtype=torch.float64, generator=one_by_one) for _ in range(1000)]
    together = torch.rand(1000, dtype=torch.float64, generator=at_once)
    assert torch.equal(torch.cat(singles), together)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_temperature_of_zero_is_the_raw_argmax(dtype):
    rows = random_rows(20).to(dtype)
    assert sample_all(rows, SamplingParams(temperature=0)) == greedy(rows).tolist()


def test_the_smallest_temperature_chooses_the_largest_logit():
    rows = random_rows(20)
    assert sample_all(rows, SamplingParams(temperature=1e-6, seed=1)) == greedy(rows).tolist()


ONE_IS_LEFT = [
    {"top_k": 1},
    {"top_k": 1, "temperature": 1e6},
    {"top_k": 1, "top_p": 0.5, "min_p": 0.2},
    {"top_p": 0.0},
    {"top_p": 1e-9, "temperature": 1e-6},
    {"top_p": 0.001, "top_k": 50},
    {"top_p": 0.0, "top_k": 200},
    {"top_p": 0.0, "temperature": 1e6, "min_p": 0.5},
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tied", [[3, 7, 250], [0, 1, 2], [297, 298, 299], [299, 0, 150, 149]])
@pytest.mark.parametrize("cuts", ONE_IS_LEFT, ids=str)
def test_where_one_token_can_be_drawn_it_is_greedys_however_many_tie(cuts, tied, dtype):
    rows = random_rows(8).to(dtype)
    rows[:, tied] = rows.amax(-1, keepdim=True)
    expected = greedy(rows).tolist()
    assert (rows == rows.amax(-1, keepdim=True)).sum(-1).min() >= 3
    for seed in range(3):
        assert sample_all(rows, SamplingParams(seed=seed, **cuts)) == expected


@pytest.mark.parametrize("cuts", ONE_IS_LEFT, ids=str)
def test_that_holds_for_a_tie_that_a_penalty_or_a_bias_makes(cuts):
    row = torch.tensor([[0.0, 3.0, 1.0, 2.0, 3.0]])
    bias = {0: 3.0, 3: 1.0}
    assert sample_all(row, SamplingParams(logit_bias=bias, seed=1, **cuts)) == [0]
    penalised = SamplingParams(presence_penalty=1.0, seed=1, **cuts)
    # 1 is repeated once 4 was said, and then 1, 3 and 4 tie.
    assert sample_all(row.expand(3, -1), penalised) == [1, 4, 1]


def test_two_logits_that_the_division_makes_equal_are_still_two():
    base = torch.tensor(1.5)
    above = torch.nextafter(base, torch.tensor(2.0))
    merging = [t for t in torch.linspace(1.01, 1.9, 200).tolist() if base / t == above / t]
    assert merging
    rows = torch.stack((base, above, torch.tensor(0.0)))[None]
    for temperature in merging[:5]:
        for cut in ({"top_p": 0.0}, {"top_p": 0.0, "top_k": 3}, {"top_k": 1}):
            assert sample_all(rows, SamplingParams(temperature=temperature, seed=0, **cut)) == [1]


def test_where_two_tokens_can_be_drawn_equal_ones_are_equally_likely():
    """At the smallest temperature, too: a tie is no certainty."""
    rows = torch.tensor([[0.0, 5.0, 1.0, 5.0]]).expand(400, -1)
    for cuts in ({"temperature": 1e-6}, {"min_p": 1.0}, {"top_k": 2}, {"top_p": 0.6}):
        found = sample_all(rows, SamplingParams(seed=2, **cuts))
        assert 150 < found.count(1) < 250
        assert found.count(1) + found.count(3) >= 390


@pytest.mark.parametrize(
    "penalty",
    [{"repetition_penalty": 1.5}, {"presence_penalty": 3.0}, {"frequency_penalty": 3.0}],
    ids=str,
)
def test_greedy_with_a_penalty_leaves_a_token_it_would_repeat(penalty):
    rows = torch.tensor([[3.0, 2.5, 0.0]]).expand(4, -1)
    assert sample_all(rows, SamplingParams(temperature=0), [2]) == [0, 0, 0, 0]
    penalised = sample_all(rows, SamplingParams(temperature=0, **penalty), [2])
    assert penalised[:2] == [0, 1]


def test_only_the_repetition_penalty_counts_the_prompt():
    rows = torch.tensor([[3.0, 2.5, 0.0]])
    for penalty, expected in [
        ({"repetition_penalty": 1.5}, 1),
        ({"presence_penalty": 3.0}, 0),
        ({"frequency_penalty": 3.0}, 0),
    ]:
        params = SamplingParams(temperature=0, **penalty)
        assert sample_all(rows, params, [0, 0]) == [expected]


def test_the_same_seed_gives_the_same_tokens_and_another_seed_others():
    rows = random_rows(50)
    first, again, other = (
        sample_all(rows, SamplingParams(seed=seed, **PARAMS["usual"])) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_the_global_random_state_is_neither_read_nor_changed():
    rows, params = random_rows(20), SamplingParams(seed=1)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = sample_all(rows, params)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert sample_all(rows, params) == first


def test_logits_stay_as_they_were():
    rows = random_rows(3)
    before = rows.clone()
    sample_all(rows, SamplingParams(seed=0, **EVERYTHING))
    assert torch.equal(rows, before)


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_logits_that_leave_nothing_to_choose_are_refused_and_can_be_tried_again(temperature):
    params = SamplingParams(temperature=temperature, seed=3, presence_penalty=0.5)
    rows = random_rows(5)
    expected = sample_all(rows, params)
    sampler = SequenceSampler(params, PROMPT)
    found = [int(sampler(rows[:1])[0])]
    for wrong in (torch.full((1, VOCAB), -torch.inf), torch.full((1, VOCAB), torch.nan)):
        with pytest.raises(GenerationError, match="no token can be chosen"):
            sampler(wrong)
    found += [int(sampler(row[None])[0]) for row in rows[1:]]
    assert found == expected


def test_several_rows_are_refused():
    sampler = SequenceSampler(SamplingParams(), PROMPT)
    with pytest.raises(GenerationError, match=r"2 rows; a SequenceSampler chooses for one"):
        sampler(random_rows(2))


def test_a_result_tells_the_seed_with_which_it_can_be_repeated(model, prompt):
    params = SamplingParams(temperature=1.5)
    result = generate(model, prompt, StopConditions(12), sampler=params).run()
    assert result.sampling.seed is not None
    assert dataclasses.replace(result.sampling, seed=None) == params
    again = generate(model, prompt, StopConditions(12), sampler=result.sampling).run()
    assert (again.token_ids, again.sampling) == (result.token_ids, result.sampling)


def test_a_greedy_result_has_nothing_to_repeat_it_with(model, prompt):
    result = generate(model, prompt, StopConditions(2)).run()
    assert (result.sampling, result.logprobs) == (None, None)


def test_two_generations_with_the_same_parameters_do_not_disturb_each_other(model, prompt):
    params = SamplingParams(seed=4, presence_penalty=1.0)
    alone = generate(model, prompt, StopConditions(8), sampler=params).run().token_ids
    one, other = (generate(model, prompt, StopConditions(8), sampler=params) for _ in range(2))
    pairs = list(zip(one, other, strict=True))
    assert [pair[0] for pair in pairs] == [pair[1] for pair in pairs] == alone


def test_cached_chunked_and_uncached_sample_the_same_tokens(model, prompt):
    params = SamplingParams(seed=6, **PARAMS["usual"])
    first, *others = (
        generate(model, prompt, StopConditions(16), sampler=params, **options).run().token_ids
        for options in ({}, {"chunk_size": 4}, {"use_cache": False})
    )
    assert others == [first, first]


def test_a_second_turn_over_a_cache_samples_what_a_fresh_run_would(model, prompt):
    params = SamplingParams(seed=8, temperature=0.9, repetition_penalty=1.4)
    cache = StaticKVCache.for_model(model, 64)
    generate(model, prompt[:10], StopConditions(1), cache=cache).run()
    second = generate(
        model,
        prompt[10:],
        StopConditions(12),
        sampler=params,
        cache=cache,
        earlier_token_ids=prompt[:10],
    )
    fresh = generate(model, prompt, StopConditions(12), sampler=params)
    assert second.run().token_ids == fresh.run().token_ids


def test_a_repetition_penalty_over_a_cache_has_to_know_what_the_cache_holds(model, prompt):
    cache = StaticKVCache.for_model(model, 64)
    generate(model, prompt[:10], StopConditions(1), cache=cache).run()
    params = SamplingParams(repetition_penalty=1.4)
    for earlier in ([], prompt[:9]):
        with pytest.raises(GenerationError, match=rf"holds 10 tokens .* names {len(earlier)};"):
            generate(
                model,
                prompt[10:],
                StopConditions(4),
                sampler=params,
                cache=cache,
                earlier_token_ids=earlier,
            )
    generate(model, prompt[10:], StopConditions(4), sampler=SamplingParams(), cache=cache)


def test_a_bias_outside_the_models_vocabulary_is_refused_before_the_start(model, prompt):
    params = SamplingParams(logit_bias={61: 1.0})
    with pytest.raises(GenerationError, match="logit_bias names token 61"):
        generate(model, prompt, StopConditions(4), sampler=params)


PROGRAM = textwrap.dedent("""
    import torch
    from augur_gen import SamplingParams, StopConditions, generate
    from augur_model import QwenConfig, QwenForCausalLM

    torch.set_num_threads(1)
    sizes = dict(vocab_size=100, hidden_size=32, intermediate_size=64, max_position_embeddings=64)
    heads = dict(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    constants = dict(model_type="qwen2", rms_norm_eps=1e-6, rope_theta=1e6)
    model = QwenForCausalLM(QwenConfig.from_dict(sizes | heads | constants))
    weights = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.normal_(0, 0.3, generator=weights)
    params = SamplingParams(temperature=0.9, top_k=50, top_p=0.95, repetition_penalty=1.1, seed=7)
    token_ids = generate(model, [1, 2, 3], StopConditions(40), sampler=params).run().token_ids
    print(token_ids)
""")


@pytest.mark.gate
def test_the_same_seed_gives_the_same_tokens_in_another_process(capsys):
    exec(compile(PROGRAM, "program", "exec"), {})
    here = capsys.readouterr().out
    there = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    ).stdout
    assert here == there
    assert len(set(here.strip("[]\n").split(", "))) > 10
