"""What the exactness columns say of rungs that are right, and of rungs that are not."""

from dataclasses import asdict

import pytest
import torch

from augur_bench.errors import RungFailedError
from augur_bench.exactness import find_parting, measure_exactness
from augur_bench.ladder import LADDER, REFERENCE
from augur_bench.reference_logits import Continuation, open_rows, record
from augur_bench.rung import Rung
from augur_bench.rung_choice import all_rungs
from augur_bench.serve import answer
from augur_bench.worker import Worker, commands, run_once
from augur_gen import UncachedSteps
from augur_model import QwenConfig
from augur_weights import Checkpoint
from bench_here import TRIAL_RUNGS

TRIAL = all_rungs(TRIAL_RUNGS)
PROMPTS = [[5, 1, 4], [9, 2, 6, 5, 3], [5, 8]]
NUM_TOKENS = 3
CPU = torch.device("cpu")


def new_steps(rung: Rung, folder, dtype=torch.float32):
    return rung.prepare(rung.load(folder, CPU, dtype), 16)


@pytest.fixture(scope="module")
def reference(tiny_folder, tmp_path_factory):
    """The reference's continuations and its rows."""
    vocab_size = QwenConfig.from_dict(Checkpoint(tiny_folder).config).vocab_size
    path = tmp_path_factory.mktemp("reference") / "rows"
    counts = [NUM_TOKENS] * len(PROMPTS)
    rows = open_rows(path, sum(counts), vocab_size)
    chosen = record(new_steps(REFERENCE, tiny_folder), PROMPTS, counts, rows, CPU)
    continuations = [
        Continuation(prompt, token_ids, NUM_TOKENS * index)
        for index, (prompt, token_ids) in enumerate(zip(PROMPTS, chosen, strict=True))
    ]
    return continuations, open_rows(path, sum(counts), vocab_size)


def exactness_of(rung: Rung, folder, reference, dtype=torch.float32):
    return measure_exactness(new_steps(rung, folder, dtype), *reference, CPU)


def test_the_eager_cached_rung_shows_exactly_0(tiny_folder, reference):
    found = exactness_of(LADDER["cached"], tiny_folder, reference)
    assert (found.num_prompts, found.num_positions, found.num_same_top) == (3, 9, 9)
    assert (found.max_abs_diff, found.mean_kl_nats, found.max_kl_nats) == (0, 0, 0)


@pytest.mark.parametrize("name", ["wrong-epsilon", "no-bias"])
def test_a_wrong_rung_is_shown_as_such(name, tiny_folder, reference):
    found = exactness_of(TRIAL[name], tiny_folder, reference)
    rounding = exactness_of(LADDER["sdpa"], tiny_folder, reference)
    assert found.max_abs_diff > 1e-4
    assert found.max_abs_diff > 10 * rounding.max_abs_diff
    assert found.max_kl_nats >= found.mean_kl_nats > 0


@pytest.mark.parametrize("name", ["uncached", "last-logits", "sdpa"])
def test_another_order_of_sums_shows_rounding_alone(name, tiny_folder, reference):
    assert exactness_of(LADDER[name], tiny_folder, reference).max_abs_diff < 1e-4


def test_a_narrower_dtype_shows_what_it_costs(tiny_folder, reference):
    rung = LADDER["bfloat16"]
    found = exactness_of(rung, tiny_folder, reference, torch.bfloat16)
    assert 1e-4 < found.max_abs_diff < 1
    assert found.max_kl_nats > 0


def test_the_largest_difference_is_that_of_the_worst_logit(tiny_folder, reference):
    continuations, rows = reference
    changed = rows.clone()
    changed[4, 7] += 0.5
    changed[6, 1] -= 2.0
    steps = new_steps(LADDER["cached"], tiny_folder)
    found = measure_exactness(steps, continuations, changed, CPU)
    assert found.max_abs_diff == pytest.approx(2.0, abs=1e-5)


def test_a_choice_that_differs_is_counted(tiny_folder, reference):
    continuations, rows = reference
    changed = rows.clone()
    changed[4, (int(rows[4].argmax()) + 1) % rows.shape[1]] = rows[4].max() + 1
    steps = new_steps(LADDER["cached"], tiny_folder)
    assert measure_exactness(steps, continuations, changed, CPU).num_same_top == 8


def test_logits_that_are_not_finite_are_a_failure(tiny_folder, reference):
    with pytest.raises(RungFailedError, match="after 1 new tokens, 1 of"):
        exactness_of(TRIAL["not-finite"], tiny_folder, reference)


def test_a_text_that_parts_tells_where_and_by_what_margin(reference):
    continuations, rows = reference
    ours = [*continuations[1].token_ids]
    second_best = int(rows[5].topk(2).indices[1])
    ours[2] = second_best
    found = find_parting(ours, continuations[1], rows)
    assert asdict(found) == {
        "num_tokens": 3,
        "index": 2,
        "reference_token_id": continuations[1].token_ids[2],
        "token_id": second_best,
        "margin": pytest.approx(float(rows[5].topk(2).values.diff().abs())),
    }


def test_a_text_that_does_not_part_has_no_margin(reference):
    continuations, rows = reference
    found = find_parting(continuations[0].token_ids, continuations[0], rows)
    assert (found.num_tokens, found.index, found.margin) == (3, None, None)


def test_the_reference_decodes_and_does_not_recompute(tiny_folder, reference):
    # Its rows have the bits of decode steps; those of a whole forward pass are others.
    continuations, rows = reference
    model = REFERENCE.load(tiny_folder, CPU, torch.float32)
    found = measure_exactness(lambda: UncachedSteps(model), continuations, rows, CPU)
    assert found.max_abs_diff > 0


def test_a_rung_that_would_end_its_process_is_told_of(tiny_folder):
    worker = Worker("cpu", None)
    path = str(TRIAL_RUNGS)
    worker.load("leaving", path, str(tiny_folder), "float32")
    request = {"do": "warm_up", "prompt_token_ids": [1], "capacity": 8}
    found = answer(commands(worker), request)
    assert found == {"error": "SystemExit: the rung wants to leave"}


def test_a_timed_run_with_a_logit_that_is_not_finite_is_a_failure(tiny_folder):
    with pytest.raises(RungFailedError, match="after 4 new tokens, a logit is -inf"):
        run_once(new_steps(TRIAL["late-minus-inf"], tiny_folder), [5, 1, 4], 6, CPU)
