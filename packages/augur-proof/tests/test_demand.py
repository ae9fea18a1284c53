"""Equality is demanded wherever it is promised, and a tolerance only for a reason."""

from dataclasses import replace

import pytest

from augur_proof import EXACT, MadeWith, Tolerance, one_op_demand, whole_model_demand

TRUTH = MadeWith(
    "transformers", "a/model", dtype="float32", device="cpu", attention="eager", max_new_tokens=1
)
FLOAT32, FLOAT16 = Tolerance(1e-4, 1e-4), Tolerance(5e-3, 5e-3)
BFLOAT16 = Tolerance(1e-2, of_peak=0.03)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_same_setting_on_a_cpu_is_held_to_the_bit(dtype):
    truth = replace(TRUTH, dtype=dtype)
    demand = whole_model_demand(truth, replace(truth, engine="augur"))
    assert (demand.tolerance, demand.near_ties_may_part, demand.reasons) == (EXACT, False, ())
    assert one_op_demand(truth, truth).tolerance == EXACT


def test_off_the_cpu_no_bits_are_promised():
    gpu = replace(TRUTH, device="cuda:1")
    demand = whole_model_demand(gpu, gpu)
    assert (demand.tolerance, demand.reasons) == (FLOAT32, ("cuda against cuda",))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"attention": "sdpa"}, "sdpa against eager"),
        ({"attention": "my_kernels:TABLE"}, "my_kernels:TABLE against eager"),
        ({"device": "cuda"}, "cuda against cpu"),
    ],
)
def test_another_implementation_in_float32_has_a_tolerance_and_must_give_the_same_tokens(
    change, reason
):
    demand = whole_model_demand(TRUTH, replace(TRUTH, **change))
    assert (demand.tolerance, demand.reasons) == (FLOAT32, (reason,))
    assert not demand.near_ties_may_part
    assert one_op_demand(TRUTH, replace(TRUTH, **change)).tolerance == Tolerance(1e-5, 1.3e-6)


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance"),
    [
        ("bfloat16", "float32", BFLOAT16),
        ("float32", "bfloat16", BFLOAT16),
        ("float16", "float32", FLOAT16),
        ("float16", "bfloat16", BFLOAT16),
    ],
)
def test_of_two_dtypes_the_coarser_decides_and_near_ties_may_part(ours, theirs, tolerance):
    demand = whole_model_demand(replace(TRUTH, dtype=theirs), replace(TRUTH, dtype=ours))
    assert (demand.tolerance, demand.near_ties_may_part) == (tolerance, True)
    assert demand.reasons == (f"{ours} against {theirs}",)


@pytest.mark.parametrize("demand", [whole_model_demand, one_op_demand])
def test_the_users_own_tolerance_comes_before_all(demand):
    narrow = replace(TRUTH, dtype="bfloat16")
    assert demand(narrow, TRUTH, 0.25).tolerance == Tolerance(0.25)
    strict = demand(narrow, TRUTH, 0.0)
    assert (strict.tolerance, strict.near_ties_may_part) == (EXACT, False)
