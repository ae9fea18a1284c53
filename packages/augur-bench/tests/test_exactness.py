"""What the exactness columns say of rungs that are right, and of rungs that are not."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from worker_here import TRIAL_RUNGS

from augur_bench import Rung, RungFailedError
from augur_bench.exactness import (
    continue_greedily,
    find_parting,
    load_reference,
    measure_exactness,
    save_reference,
)
from augur_bench.ladder import LADDER, REFERENCE
from augur_bench.rung_choice import all_rungs
from augur_bench.worker import Worker, answer, run_once
from augur_gen import UncachedSteps

TRIAL = all_rungs(TRIAL_RUNGS)
PROMPTS = [[5, 1, 4], [9, 2, 6, 5, 3], [5, 8]]
NUM_TOKENS = 3
CPU = torch.device("cpu")


def new_steps(rung: Rung, folder, dtype=torch.float32):
    candidate = rung.open(folder, CPU, dtype)
    return partial(candidate.new_steps, candidate.model, 16)


@pytest.fixture(scope="module")
def reference(tiny_folder, tmp_path_factory):
    """The reference's continuations, by way of their file."""
    path = tmp_path_factory.mktemp("reference") / "reference.pt"
    steps = new_steps(REFERENCE, tiny_folder)
    save_reference([continue_greedily(steps(), one, NUM_TOKENS, CPU) for one in PROMPTS], path)
    return load_reference(path)


def exactness_of(rung: Rung, folder, reference, dtype=torch.float32):
    own_token_ids = reference[0].token_ids
    return measure_exactness(new_steps(rung, folder, dtype), own_token_ids, reference, CPU)


def with_row(reference, prompt: int, position: int, change):
    """The reference with one row that is another."""
    rows = reference[prompt].rows.clone()
    change(rows[position])
    changed = list(reference)
    changed[prompt] = replace(reference[prompt], rows=rows)
    return changed


def test_the_eager_cached_rung_shows_exactly_0(tiny_folder, reference):
    found = exactness_of(LADDER["cached"], tiny_folder, reference)
    assert (found["num_prompts"], found["num_positions"], found["num_same_top"]) == (3, 9, 9)
    assert (found["max_abs_diff"], found["mean_kl_nats"], found["max_kl_nats"]) == (0, 0, 0)


@pytest.mark.parametrize("name", ["wrong-epsilon", "no-bias"])
def test_a_wrong_rung_is_shown_as_such(name, tiny_folder, reference):
    found = exactness_of(TRIAL[name], tiny_folder, reference)
    rounding = exactness_of(LADDER["sdpa"], tiny_folder, reference)
    assert found["max_abs_diff"] > 1e-4
    assert found["max_abs_diff"] > 10 * rounding["max_abs_diff"]
    assert found["max_kl_nats"] >= found["mean_kl_nats"] > 0


@pytest.mark.parametrize("name", ["uncached", "last-logits", "sdpa"])
def test_another_order_of_sums_shows_rounding_alone(name, tiny_folder, reference):
    assert exactness_of(LADDER[name], tiny_folder, reference)["max_abs_diff"] < 1e-4


def test_a_narrower_dtype_shows_what_it_costs(tiny_folder, reference):
    rung = LADDER["bfloat16"]
    found = exactness_of(rung, tiny_folder, reference, torch.bfloat16)
    assert 1e-4 < found["max_abs_diff"] < 1
    assert found["max_kl_nats"] > 0


def test_the_largest_difference_is_that_of_the_worst_logit(tiny_folder, reference):
    changed = with_row(reference, 1, 1, lambda row: row[7].add_(0.5))
    changed = with_row(changed, 2, 0, lambda row: row[1].sub_(2.0))
    found = exactness_of(LADDER["cached"], tiny_folder, changed)
    assert found["max_abs_diff"] == pytest.approx(2.0, abs=1e-5)


def test_a_choice_that_differs_is_counted(tiny_folder, reference):
    changed = with_row(reference, 1, 1, lambda row: row[row.argmin()].fill_(row.max() + 1))
    assert exactness_of(LADDER["cached"], tiny_folder, changed)["num_same_top"] == 8


def test_logits_that_are_not_finite_are_a_failure(tiny_folder, reference):
    with pytest.raises(RungFailedError, match="after 1 new tokens, 1 of"):
        exactness_of(TRIAL["not-finite"], tiny_folder, reference)


def test_a_text_that_parts_tells_where_and_by_what_margin(reference):
    ours = list(reference[1].token_ids)
    best, second_best = reference[1].rows[2].topk(2).values.tolist()
    ours[2] = int(reference[1].rows[2].topk(2).indices[1])
    assert find_parting(ours, reference[1]) == {
        "num_tokens": 3,
        "index": 2,
        "reference_token_id": reference[1].token_ids[2],
        "token_id": ours[2],
        "margin": pytest.approx(best - second_best),
    }


def test_a_text_that_does_not_part_has_no_margin(reference):
    found = find_parting(reference[0].token_ids, reference[0])
    assert (found["num_tokens"], found["index"], found["margin"]) == (3, None, None)


def test_the_reference_decodes_and_does_not_recompute(tiny_folder, reference):
    # Its rows have the bits of decode steps; those of a whole forward pass are others.
    model = REFERENCE.open(tiny_folder, CPU, torch.float32).model
    own_token_ids = reference[0].token_ids
    found = measure_exactness(lambda: UncachedSteps(model), own_token_ids, reference, CPU)
    assert found["max_abs_diff"] > 0


def test_a_rung_that_would_end_its_process_is_told_of(make_settings):
    worker = Worker(make_settings())
    worker.load("leaving")
    found = answer(worker, "warm_up", ([1], 8))
    assert found == (RungFailedError, "SystemExit: the rung wants to leave")


def test_a_timed_run_with_a_logit_that_is_not_finite_is_a_failure(tiny_folder):
    with pytest.raises(RungFailedError, match="after 4 new tokens, a logit is -inf"):
        run_once(new_steps(TRIAL["late-minus-inf"], tiny_folder)(), [5, 1, 4], 6, CPU)
