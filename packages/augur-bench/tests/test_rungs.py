"""The ladder and what joins it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from worker_here import TRIAL_RUNGS

from augur_bench import (
    BenchError,
    Rung,
    RungUnavailableError,
    choose_pairs,
    choose_rungs,
    compiled,
    cuda_graph,
)
from augur_bench.compiled import missing_compiler
from augur_bench.ladder import LADDER, PEERS
from augur_bench.rung_choice import all_rungs
from augur_bench.worker import run_once
from augur_gen import StopConditions, generate
from augur_model import MLP, SDPA
from augur_proof import Candidate

CPU = torch.device("cpu")
PROMPT = [5, 3, 8, 1]
ONE_RUNG = "from augur_bench import Rung\nRUNGS = [Rung(name='trial', changes='all', {})]"
TWO_LINES = ONE_RUNG.format("").replace("'all'", "'one\\ntwo'")


@pytest.fixture
def plain(tiny_folder):
    """augur's network as it stands."""
    return Candidate.load(tiny_folder, dtype=torch.float32).model


@pytest.fixture
def expected(plain):
    return generate(plain, PROMPT, StopConditions(8)).run().token_ids


def names(rungs):
    return [rung.name for rung in rungs]


def test_the_ladder_has_every_optimisation_and_each_has_a_parent_in_it():
    assert list(LADDER) == [
        "uncached",
        "last-logits",
        "cached",
        "blocked",
        "sdpa",
        "paged",
        "bfloat16",
        "float16",
        "compiled",
        "cuda-graph",
    ]
    assert names(rung for rung in LADDER.values() if rung.parent is None) == ["uncached"]
    for rung in (*LADDER.values(), *PEERS.values()):
        assert rung.parent is None or rung.parent in LADDER


def test_rungs_run_in_the_order_of_the_ladder():
    assert names(choose_rungs("sdpa, uncached", None)) == ["uncached", "sdpa"]
    assert names(choose_rungs(None, None)) == list(LADDER)


@pytest.mark.parametrize("asked", ["cached,typo", "", ","])
def test_unknown_rungs_are_refused_with_the_list(asked):
    with pytest.raises(BenchError, match="There are: uncached, last-logits"):
        choose_rungs(asked, None)


def test_a_file_adds_rungs_behind_the_ladder():
    assert list(all_rungs(TRIAL_RUNGS))[: len(LADDER)] == list(LADDER)
    assert "no-bias" in all_rungs(TRIAL_RUNGS)
    assert "no-bias" not in LADDER


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("RUNGS = 3", "RUNGS is int, expected a list"),
        ("import there_is_no_such_module", "ModuleNotFoundError"),
        ("from augur_bench.ladder import LADDER\nRUNGS = [LADDER['sdpa']]", "a rung sdpa already"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        (ONE_RUNG.format("dtype='int8'"), "rung trial: dtype is 'int8', expected one of float32"),
        (
            ONE_RUNG.format("parent='cash'"),
            "rung trial has the parent 'cash', expected another rung: uncached,",
        ),
        (ONE_RUNG.format("parent='reference'"), "has the parent 'reference'"),
        (ONE_RUNG.format("parent='trial'"), "rung trial has the parent 'trial', expected another"),
        (TWO_LINES, r"rung trial: changes is 'one\\ntwo', expected words on one line"),
        (ONE_RUNG.format("").replace("trial", "a,b"), "a rung has the name 'a,b'"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(source, message, tmp_path):
    path = tmp_path / "rungs.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(BenchError, match=message):
        all_rungs(path)


def test_what_a_file_prints_does_not_mix_with_the_result(tmp_path, capsys):
    path = tmp_path / "rungs.py"
    path.write_text(f"print('hello')\n{ONE_RUNG.format('')}", encoding="utf-8")
    assert "trial" in all_rungs(path)
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize("name", ["missing.py", "rungs.txt"])
def test_a_file_that_is_not_there_is_refused(name):
    with pytest.raises(BenchError, match="expected a Python file"):
        all_rungs(Path(name))


def test_a_peer_stands_beside_the_rung_it_answers_to():
    groups = choose_pairs(choose_rungs("uncached,cached,sdpa", None), "transformers")
    assert [names(group) for group in groups] == [
        ["uncached"],
        ["cached", "transformers-eager"],
        ["sdpa", "transformers-sdpa"],
    ]


def test_a_peer_without_its_rung_is_refused():
    with pytest.raises(BenchError, match="cached and sdpa"):
        choose_pairs(choose_rungs("uncached", None), "transformers")


@pytest.mark.parametrize("name", ["uncached", "last-logits", "cached", "blocked", "sdpa", "paged"])
def test_a_rung_changes_how_not_what_is_generated(name, tiny_folder, expected):
    candidate = LADDER[name].open(tiny_folder, CPU, torch.float32)
    assert candidate.name == name
    steps = candidate.new_steps(candidate.model, 16)
    assert run_once(steps, PROMPT, 8, CPU).token_ids == expected


def test_a_rung_names_ops_a_transformation_and_steps_of_its_own(tiny_folder):
    def double_mlps(model):
        for part in model.modules():
            if isinstance(part, MLP):
                part.down_proj.weight.data *= 2

    steps = object()
    rung = Rung(
        "trial",
        "all three",
        ops=SDPA,
        transform=double_mlps,
        new_steps=lambda _model, capacity: (steps, capacity),
    )
    candidate = rung.open(tiny_folder, CPU, torch.float32)
    plain = LADDER["cached"].open(tiny_folder, CPU, torch.float32).model
    assert candidate.model.ops is SDPA
    ours, theirs = (one.model.layers[0].mlp.down_proj.weight for one in (candidate.model, plain))
    assert torch.equal(ours, 2 * theirs)
    assert candidate.new_steps(candidate.model, 16) == (steps, 16)


@pytest.mark.gate
def test_the_decode_step_is_compiled_once_for_all_layers_and_positions(plain, expected):
    graphs = []

    def count(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    new_steps = compiled(backend=count)
    for prompt in (PROMPT, PROMPT[:2], PROMPT):
        result = run_once(new_steps(plain, 24), prompt, 8, CPU)
    assert result.token_ids == expected
    assert len(graphs) == 1


def test_a_recorded_step_is_replayed_for_every_token_of_one_sequence_after_another(plain, expected):
    recorded = []

    def record(compute):
        # As a graph: what is computed goes to the same memory each time.
        memory = compute()
        recorded.append(memory)
        return lambda: memory.copy_(compute())

    new_steps = cuda_graph(record)
    for prompt in (PROMPT, PROMPT[:2], PROMPT):
        result = run_once(new_steps(plain, 24), prompt, 8, CPU)
    assert result.token_ids == expected
    assert len(recorded) == 1


def test_a_graph_needs_cuda():
    assert "no CUDA device" in LADDER["cuda-graph"].missing(CPU)
    assert LADDER["cuda-graph"].missing(torch.device("cuda")) is None


@pytest.mark.gate
def test_compiled_code_computes_the_same_to_rounding(plain):
    if missing_compiler(CPU) is not None:
        pytest.skip("torch.compile needs a C++ compiler")
    ours, eager = (make(plain, 8) for make in (compiled(), LADDER["cached"].new_steps))
    prompt, next_token = torch.tensor([PROMPT]), torch.tensor([[7]])
    assert torch.equal(ours.prefill(prompt), eager.prefill(prompt))
    torch.testing.assert_close(ours.decode(next_token), eager.decode(next_token), rtol=0, atol=1e-4)


@pytest.mark.gate
def test_without_a_compiler_the_compiled_rung_is_missing_something():
    import torch._inductor.config

    torch._dynamo.reset()
    no_compiler = {"cpp.cxx": (None, "/there/is/no/compiler"), "force_disable_caches": True}
    with torch._inductor.config.patch(no_compiler):
        assert LADDER["compiled"].missing(CPU).startswith("torch.compile does not work here: ")


@pytest.mark.gate
def test_the_compiled_rung_does_not_go_with_windows_narrower_than_the_cache(plain):
    plain.config = replace(plain.config, attention_windows=(None, 16))
    assert compiled(backend="eager")(plain, 16) is not None
    with pytest.raises(RungUnavailableError, match="look at the last 16 tokens alone"):
        compiled(backend="eager")(plain, 17)
