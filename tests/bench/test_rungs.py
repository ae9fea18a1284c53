"""The ladder and what joins it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch._inductor.config
from safetensors.torch import load_file, save_file

from augur_bench.compiled import compiled, missing_compiler
from augur_bench.errors import BenchError, RungUnavailableError
from augur_bench.ladder import LADDER
from augur_bench.peers import PEERS
from augur_bench.rung import load_eager
from augur_bench.rung_choice import all_rungs, choose_pairs, choose_rungs
from augur_bench.worker import run_once
from augur_gen import StopConditions, generate
from bench_here import TRIAL_RUNGS

CPU = torch.device("cpu")
PROMPT = [5, 3, 8, 1]
ONE_RUNG = "from augur_bench.rung import Rung\nRUNGS = [Rung(name='trial', changes='all', {})]"
TWO_LINES = ONE_RUNG.format("").replace("'all'", "'one\\ntwo'")


def names(rungs):
    return [rung.name for rung in rungs]


def test_the_ladder_has_every_optimisation_and_each_has_a_parent_in_it():
    assert list(LADDER) == [
        "uncached",
        "last-logits",
        "cached",
        "sdpa",
        "bfloat16",
        "float16",
        "compiled",
    ]
    assert [rung.name for rung in LADDER.values() if rung.parent is None] == ["uncached"]
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
            "rung trial has the parent 'cash', and there is no such",
        ),
        (ONE_RUNG.format("parent='reference'"), "no such rung"),
        (ONE_RUNG.format("parent='trial'"), "rung trial is its own parent"),
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


def test_a_peers_weights_are_aligned_outside_the_time_to_load(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "odd")
    tensors = load_file(folder / "model.safetensors")
    peer = PEERS["transformers-eager"]

    def odd_addresses(model):
        return {parameter.data_ptr() % 64 for parameter in model.parameters()} - {0}

    for padding in range(0, 64, 8):  # of the header, which the addresses lie behind
        metadata = {"format": "pt", "padding": "x" * padding}
        save_file(tensors, folder / "model.safetensors", metadata=metadata)
        model = peer.load(folder, CPU, torch.float32)
        if odd_addresses(model):
            break
    else:
        pytest.skip("this release of transformers copies the weights out of the file")
    peer.prepare(model, 16)
    assert not odd_addresses(model)


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


@pytest.mark.parametrize("name", ["uncached", "last-logits", "cached", "sdpa"])
def test_a_rung_changes_how_not_what_is_generated(name, tiny_folder):
    rung = LADDER[name]
    model = rung.load(tiny_folder, CPU, torch.float32)
    ours = run_once(rung.prepare(model, 16), PROMPT, 8, CPU)
    expected = generate(load_eager(tiny_folder, CPU, torch.float32), PROMPT, StopConditions(8))
    assert ours.token_ids == expected.run().token_ids


@pytest.mark.parametrize("name", list(PEERS))
def test_a_peer_generates_what_ours_does(name, tiny_folder):
    peer = PEERS[name]
    assert peer.missing(CPU) is None
    new_steps = peer.prepare(peer.load(tiny_folder, CPU, torch.float32), 16)
    expected = generate(load_eager(tiny_folder, CPU, torch.float32), PROMPT, StopConditions(8))
    for _ in range(2):  # each sequence starts from nothing
        assert run_once(new_steps, PROMPT, 8, CPU).token_ids == expected.run().token_ids
        expected = generate(load_eager(tiny_folder, CPU, torch.float32), PROMPT, StopConditions(8))


def test_the_decode_step_is_compiled_once_for_all_layers_and_positions(tiny_folder):
    graphs = []

    def count(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model = load_eager(tiny_folder, CPU, torch.float32)
    new_steps = compiled(backend=count)(model, 24)
    expected = generate(model, PROMPT, StopConditions(8)).run().token_ids
    for prompt in (PROMPT, PROMPT[:2], PROMPT):
        result = run_once(new_steps, prompt, 8, CPU)
    assert result.token_ids == expected
    assert len(graphs) == 1


def test_compiled_code_computes_the_same_to_rounding(tiny_folder):
    if missing_compiler(CPU) is not None:
        pytest.skip("torch.compile needs a C++ compiler")
    model = load_eager(tiny_folder, CPU, torch.float32)
    ours, plain = compiled()(model, 8)(), LADDER["cached"].prepare(model, 8)()
    prompt, next_token = torch.tensor([PROMPT]), torch.tensor([[7]])
    assert torch.equal(ours.prefill(prompt), plain.prefill(prompt))
    torch.testing.assert_close(ours.decode(next_token), plain.decode(next_token), rtol=0, atol=1e-4)


def test_without_a_compiler_the_compiled_rung_is_missing_something():
    torch._dynamo.reset()
    no_compiler = {"cpp.cxx": (None, "/there/is/no/compiler"), "force_disable_caches": True}
    with torch._inductor.config.patch(no_compiler):
        assert LADDER["compiled"].missing(CPU).startswith("torch.compile does not work here: ")


def test_the_compiled_rung_does_not_go_with_windows_narrower_than_the_cache(tiny_folder):
    model = load_eager(tiny_folder, CPU, torch.float32)
    model.config = replace(model.config, attention_windows=(None, 16))
    assert compiled(backend="eager")(model, 16) is not None
    with pytest.raises(RungUnavailableError, match="look at the last 16 tokens alone"):
        compiled(backend="eager")(model, 17)
