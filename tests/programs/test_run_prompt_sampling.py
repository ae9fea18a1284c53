"""The options of apps/run_prompt.py that choose tokens."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from augur.llm import LLM, load
from augur_gen import SamplingParams, StopConditions, generate
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from program_run import COMPUTING, run_in_process, run_program

PROMPT = "blue light blue light"


def samples(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run_in_process(
        "run_prompt.py", PROMPT, "--raw", "--json", *COMPUTING, "--model", folder, *arguments
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def answer(folder: Path, *arguments: str) -> dict[str, Any]:
    (only,) = samples(folder, *arguments)
    return only


@pytest.fixture(scope="module")
def engine(tiny_folder: Path) -> LLM:
    return load(tiny_folder, device="cpu", dtype="float32")


def token_ids(engine: LLM, params: SamplingParams, max_new_tokens: int = 12) -> list[int]:
    stop = StopConditions(max_new_tokens, engine.eos_token_ids)
    prompt_token_ids = engine.encode(PROMPT, raw=True)
    return generate(engine.model, prompt_token_ids, stop, sampler=params).run().token_ids


DRAWN = SamplingParams(temperature=1.0, seed=11)
GREEDY = SamplingParams(temperature=0)
CHANGES: dict[str, tuple[SamplingParams, dict[str, Any]]] = {
    "--temperature 0.5": (DRAWN, {"temperature": 0.5}),
    "--top-k 3": (DRAWN, {"top_k": 3}),
    "--top-p 0.4": (DRAWN, {"top_p": 0.4}),
    "--min-p 0.5": (DRAWN, {"min_p": 0.5}),
    "--seed 12": (DRAWN, {"seed": 12}),
    "--repetition-penalty 1.5": (GREEDY, {"repetition_penalty": 1.5}),
    "--presence-penalty 2": (GREEDY, {"presence_penalty": 2.0}),
    "--frequency-penalty -1": (GREEDY, {"frequency_penalty": -1.0}),
    "--logit-bias 40=2 --logit-bias 5=-inf": (GREEDY, {"logit_bias": {40: 2.0, 5: float("-inf")}}),
}


@pytest.mark.parametrize("given", CHANGES)
def test_each_option_does_to_the_text_what_the_parameter_does(
    tiny_folder: Path, engine: LLM, given: str
):
    before, change = CHANGES[given]
    base = ["--temperature", "1", "--seed", "11"] if before is DRAWN else []
    figures = answer(tiny_folder, "--max-new-tokens", "12", *base, *given.split())
    params = dataclasses.replace(before, **change)
    assert figures["token_ids"] == token_ids(engine, params)
    assert figures["token_ids"] != token_ids(engine, before), "the option can be seen to act"
    said = dict(change)
    if "logit_bias" in said:
        said["logit_bias"] = {"40": 2.0, "5": "-inf"}  # JSON has neither ids for keys nor infinity
    assert said.items() <= figures["sampling"].items()
    assert set(figures["sampling"]) == {field.name for field in dataclasses.fields(SamplingParams)}


def test_without_options_the_choice_is_the_raw_argmax(tiny_folder: Path, engine: LLM):
    figures = answer(tiny_folder, "--max-new-tokens", "6")
    assert figures["sampling"] == {
        "temperature": 0,
        "top_k": None,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "seed": None,
        "logprobs": None,
    }
    sequence = engine.encode(PROMPT, raw=True)
    for token_id in figures["token_ids"]:
        assert token_id == int(engine.model(torch.tensor([sequence]))[0, -1].argmax())
        sequence.append(token_id)
    assert figures["logprobs"] is None


@pytest.mark.gate
def test_one_seed_gives_one_text_in_two_processes_and_another_seed_another(tiny_folder: Path):
    asked = (PROMPT, "--model", tiny_folder, *COMPUTING, "--max-new-tokens", "20")
    drawn = ("--temperature", "1", "--seed")
    one = run_program("run_prompt.py", *asked, *drawn, "5")
    assert one.returncode == 0, one.stderr
    same = run_in_process("run_prompt.py", *asked, *drawn, "5")
    assert one.stdout == same.stdout != ""
    other = run_in_process("run_prompt.py", *asked, *drawn, "6")
    assert other.stdout != one.stdout
    assert "seed 5" in one.stderr


def test_without_a_seed_a_fresh_one_is_used_and_told(tiny_folder: Path):
    drawn = ("--temperature", "1", "--max-new-tokens", "8")
    first, second = answer(tiny_folder, *drawn), answer(tiny_folder, *drawn)
    seed = first["sampling"]["seed"]
    assert seed != second["sampling"]["seed"]
    assert answer(tiny_folder, *drawn, "--seed", str(seed))["token_ids"] == first["token_ids"]


@pytest.mark.parametrize("seed", [3, 2**32 - 2])
def test_n_samples_count_their_seeds_up_and_each_can_be_had_alone(tiny_folder: Path, seed: int):
    drawn = ("--temperature", "1", "--max-new-tokens", "8")
    three = samples(tiny_folder, *drawn, "--n", "3", "--seed", str(seed))
    seeds = [sample["sampling"]["seed"] for sample in three]
    assert seeds == [(seed + i) % 2**32 for i in range(3)]
    alone = [answer(tiny_folder, *drawn, "--seed", str(seed)) for seed in seeds]
    assert [s["token_ids"] for s in three] == [s["token_ids"] for s in alone]
    assert len({tuple(sample["token_ids"]) for sample in three}) == 3


def test_n_samples_as_text_end_with_a_line_each(tiny_folder: Path):
    drawn = ("--temperature", "1", "--max-new-tokens", "8", "--seed", "3", "--n", "2")
    texts = [sample["text"] for sample in samples(tiny_folder, *drawn)]
    asked = (PROMPT, "--raw", *COMPUTING, "--model", tiny_folder, *drawn)
    done = run_in_process("run_prompt.py", *asked)
    assert done.stdout == f"{texts[0]}\n{texts[1]}\n"
    for said in ("sample 1 of 2", "seed 3", "sample 2 of 2", "seed 4"):
        assert said in done.stderr


def test_logprobs_are_those_of_the_models_own_logits(tiny_folder: Path, engine: LLM):
    # A penalty and a temperature change the choice, and not what is reported.
    asked = ("--logprobs", "3", "--temperature", "0.7", "--seed", "1", "--presence-penalty", "1")
    figures = answer(tiny_folder, "--max-new-tokens", "7", *asked)
    prompt_token_ids, new_ids = figures["prompt_token_ids"], figures["token_ids"]
    logits = engine.model(torch.tensor([prompt_token_ids + new_ids[:-1]]))[0]
    expected = logits[len(prompt_token_ids) - 1 :].double().log_softmax(-1)
    assert len(figures["logprobs"]) == 7
    for reported, row, token_id in zip(figures["logprobs"], expected, new_ids, strict=True):
        assert reported["token_id"] == token_id
        assert reported["logprob"] == pytest.approx(float(row[token_id]), abs=1e-4)
        likeliest = row.sort(descending=True)
        assert [likely["token_id"] for likely in reported["top"]] == likeliest.indices[:3].tolist()
        top_logprobs = [likely["logprob"] for likely in reported["top"]]
        assert top_logprobs == pytest.approx(likeliest.values[:3].tolist(), abs=1e-4)
        for entry in (reported, *reported["top"]):
            assert entry["text"] == engine.tokenizer.decode([entry["token_id"]])


def test_logprobs_of_no_alternatives_and_greedily(tiny_folder: Path):
    figures = answer(tiny_folder, "--max-new-tokens", "3", "--logprobs", "0")
    assert [entry["top"] for entry in figures["logprobs"]] == [[], [], []]
    assert figures["token_ids"] == answer(tiny_folder, "--max-new-tokens", "3")["token_ids"]


WRONG = {
    "--temperature -1": "--temperature is -1",
    "--temperature nan": "--temperature is nan",
    "--temperature 1 --top-k 0": "--top-k is 0",
    "--temperature 1 --top-p 1.5": "--top-p is 1.5",
    "--temperature 1 --min-p -0.1": "--min-p is -0.1",
    "--temperature 1 --seed -1": "--seed is -1",
    "--temperature 1 --seed 4294967296": "--seed is 4294967296",
    "--repetition-penalty 0": "--repetition-penalty is 0",
    "--repetition-penalty 1e-40": "--repetition-penalty is 1e-40, expected a number from 1e-06",
    "--presence-penalty 1e39": "--presence-penalty is 1e+39, expected a number from -1e+24",
    "--frequency-penalty -1e39": "--frequency-penalty is -1e+39, expected a number from -1e+24",
    "--logit-bias 5=1e39": "--logit-bias of token 5 is 1e+39, expected a number from -1e+24",
    "--presence-penalty inf": "--presence-penalty is inf",
    "--frequency-penalty nan": "--frequency-penalty is nan",
    "--logit-bias 5": "--logit-bias is '5', expected ID=VALUE",
    "--logit-bias 5=x": "--logit-bias is '5=x'",
    "--logit-bias 5=inf": "--logit-bias of token 5 is inf",
    "--logit-bias 5=1 --logit-bias 5=2": "--logit-bias names token 5 twice",
    "--logit-bias 99999=1": "--logit-bias names token 99999; the model's vocabulary is 0 to",
    "--json --logprobs -1": "--logprobs is -1",
    "--logprobs 3": "--logprobs are told by --json alone",
    # What is about draws says nothing where nothing is drawn.
    "--top-k 5": "--top-k is about random draws, and without a temperature",
    "--top-p 0.5": "--top-p is about random draws",
    "--min-p 0.5": "--min-p is about random draws",
    "--seed 1": "--seed is about random draws",
    "--temperature 0 --top-p 0.5": "--top-p is about random draws, and at temperature 0",
    "--n 2": "--n is 2, and without a temperature all texts would be the same",
    "--temperature 0 --n 2": "--n is 2",
    "--temperature 1 --n 0": "--n",
}


@pytest.mark.parametrize("given", WRONG)
def test_a_wrong_option_is_named_in_one_message_and_status_2(tiny_folder: Path, given: str):
    done = run_in_process("run_prompt.py", PROMPT, "--model", tiny_folder, *given.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert WRONG[given] in " ".join(done.stderr.split())
    assert done.stderr.count("error:") <= 1


@pytest.mark.parametrize(
    "given",
    [
        "--top-p 0.5",
        "--temperature -1",
        "--logit-bias 5",
        "--n 3",
        "--n 3 --temperature 0 --use-generation-config",
        "--top-p 0.5 --temperature 0 --use-generation-config",
        "--max-time nan --use-generation-config",
    ],
)
def test_options_are_checked_before_the_model_is_looked_for(given: str):
    done = run_in_process("run_prompt.py", PROMPT, "--model", "./nowhere", *given.split())
    assert done.returncode == 2
    assert given.split(maxsplit=1)[0] in done.stderr
    assert "nowhere" not in done.stderr


def with_generation_config(folder: Path, **settings: Any) -> Path:
    write_tiny_checkpoint(folder)
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


QWEN = {
    "bos_token_id": 258,
    "pad_token_id": 258,
    "eos_token_id": [260, 258],
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 20,
    "transformers_version": "4.37.0",
}


def test_the_generation_config_acts_only_when_asked_for(tmp_path: Path, engine: LLM):
    folder = with_generation_config(tmp_path / "penalty", repetition_penalty=1.5)
    plain = answer(folder, "--max-new-tokens", "12")["token_ids"]
    assert plain == token_ids(engine, GREEDY)
    asked = answer(folder, "--max-new-tokens", "12", "--use-generation-config")
    assert asked["token_ids"] == token_ids(engine, SamplingParams(0, repetition_penalty=1.5))
    assert asked["token_ids"] != plain


def test_the_generation_config_of_a_qwen_is_taken_whole(tmp_path: Path):
    folder = with_generation_config(tmp_path / "qwen", **QWEN)
    asked = answer(folder, "--use-generation-config", "--max-new-tokens", "4", "--seed", "1")
    expected = {key: QWEN[key] for key in ("temperature", "top_p", "top_k", "repetition_penalty")}
    assert expected.items() <= asked["sampling"].items()
    assert answer(folder, "--max-new-tokens", "4")["sampling"]["temperature"] == 0


CONFIGS = [
    # What the command line says goes before what the file says.
    (QWEN, "--temperature 0.2 --top-k 3", {"temperature": 0.2, "top_k": 3, "top_p": 0.8}),
    # The likeliest token: no cut of the file's has a say, its penalty has.
    (QWEN, "--temperature 0", {"temperature": 0, "top_k": None, "repetition_penalty": 1.05}),
    # Without do_sample transformers takes the likeliest token, whatever the temperature.
    ({"temperature": 0.7, "top_k": 20}, "", {"temperature": 0, "top_k": None}),
    ({"temperature": 0.7, "top_k": 20}, "--temperature 1", {"temperature": 1, "top_k": 20}),
    # A temperature that is given stands for do_sample.
    ({}, "--temperature 1", {"temperature": 1, "top_k": 50}),
    ({"do_sample": False}, "--temperature 1 --top-k 9", {"temperature": 1, "top_k": 9}),
    # transformers leaves top_k out of a file when it is 50, its default; 0 means all.
    ({"do_sample": True}, "", {"temperature": 1, "top_k": 50}),
    ({"do_sample": True, "top_k": 0}, "", {"temperature": 1, "top_k": None}),
    ({"do_sample": True, "min_p": 0.1}, "", {"min_p": 0.1}),
    # Neutral or null, and so without effect.
    ({"num_beams": 1, "typical_p": 1.0, "length_penalty": 2, "suppress_tokens": None}, "", {}),
    ({"suppress_tokens": [], "bad_words_ids": [], "sequence_bias": {}}, "", {}),
    ({"begin_suppress_tokens": [], "force_words_ids": [], "penalty_alpha": 0.0}, "", {}),
]


@pytest.mark.parametrize(("config", "given", "expected"), CONFIGS)
def test_the_generation_config_is_read_as_transformers_reads_it(
    tmp_path: Path, config: dict[str, Any], given: str, expected: dict[str, Any]
):
    folder = with_generation_config(tmp_path / "it", **config)
    figures = answer(folder, "--use-generation-config", "--max-new-tokens", "2", *given.split())
    assert expected.items() <= figures["sampling"].items()


def test_limits_of_the_generation_config_are_taken(tmp_path: Path):
    folder = with_generation_config(tmp_path / "limits", max_new_tokens=3)
    asked = answer(folder, "--use-generation-config")
    assert (len(asked["token_ids"]), asked["finish_reason"]) == (3, "length")
    assert len(answer(folder, "--use-generation-config", "--max-new-tokens", "2")["token_ids"]) == 2
    assert len(answer(folder, "--max-new-tokens", "5")["token_ids"]) == 5


UNSUPPORTED = [
    ({"num_beams": 4}, "num_beams is 4, and augur does not support it"),
    ({"typical_p": 0.9}, "typical_p is 0.9"),
    ({"no_repeat_ngram_size": 3}, "no_repeat_ngram_size is 3"),
    ({"suppress_tokens": [1]}, "suppress_tokens is [1]"),
    ({"bad_words_ids": [[1]]}, "bad_words_ids is [[1]]"),
    ({"max_length": 100}, "max_length is 100"),
    ({"a_setting_of_tomorrow": 1}, "a_setting_of_tomorrow is 1"),
    ({"do_sample": "yes"}, "do_sample is 'yes', expected true or false"),
    ({"temperature": "hot"}, "temperature is 'hot'"),
    ({"top_p": 2}, "top_p is 2"),
    ({"max_new_tokens": "3"}, "max_new_tokens is '3'"),
    ({"max_new_tokens": 0}, "max_new_tokens is 0"),
    ({"stop_strings": [""]}, "stop_strings has ''"),
    ({"stop_strings": 5}, "stop_strings has 5"),
]


@pytest.mark.parametrize(("config", "said"), UNSUPPORTED)
def test_what_a_generation_config_asks_for_in_vain_is_refused_by_name(
    tmp_path: Path, config: dict[str, Any], said: str
):
    folder = with_generation_config(tmp_path / "it", **config)
    done = run_in_process(
        "run_prompt.py", PROMPT, "--model", folder, "--use-generation-config", "--device", "cpu"
    )
    assert done.returncode == 2
    assert f"{folder}/generation_config.json: {said}" in done.stderr
    assert answer(folder, "--max-new-tokens", "1")["finish_reason"] == "length", "not asked for"


def test_a_cut_goes_with_the_temperature_of_the_file_and_not_with_none(tmp_path: Path):
    drawing = with_generation_config(tmp_path / "qwen", **QWEN)
    asked = ("--use-generation-config", "--top-k", "3", "--max-new-tokens", "2")
    assert answer(drawing, *asked)["sampling"]["top_k"] == 3
    greedy = with_generation_config(tmp_path / "greedy", temperature=0.7)
    done = run_in_process("run_prompt.py", PROMPT, "--model", greedy, *asked)
    assert done.returncode == 2
    assert "--top-k is about random draws" in done.stderr


MINIMA = [
    ({"min_new_tokens": 500}, "", "min_new_tokens of generation_config.json is 500", "256 unless"),
    ({"min_new_tokens": 9}, "--max-new-tokens 3", "min_new_tokens of gen", "max-new-tokens, which"),
    ({"max_new_tokens": 3}, "--min-new-tokens 9", "--min-new-tokens is 9", "_tokens of generation"),
    ({}, "--min-new-tokens 300", "--min-new-tokens is 300", "which is 256 unless given."),
]


@pytest.mark.parametrize(("config", "given", "least", "most"), MINIMA)
def test_of_two_limits_that_do_not_go_together_it_is_said_where_each_comes_from(
    tmp_path: Path, config: dict[str, Any], given: str, least: str, most: str
):
    folder = with_generation_config(tmp_path / "it", **config)
    done = run_in_process(
        "run_prompt.py", PROMPT, "--model", folder, "--use-generation-config", *given.split()
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {least}")
    assert most in done.stderr
    assert "--min-new-tokens is 500" not in done.stderr
