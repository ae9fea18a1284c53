"""apps/run_prompt.py --input --output: a file of prompts answered."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from augur.batch.answers import AnswerWriter, read_answers
from augur.batch.output_file import only_process_on
from augur.batch.prompts import read_prompts
from augur.errors import NoRoomError
from augur.llm import LLM
from augur.options import decide
from augur_proof.tiny_checkpoint import CHAT_TEMPLATE, write_tiny_checkpoint
from program_run import COMPUTING, run_in_process

SAMPLED = ("--temperature", "1", "--max-new-tokens", "8")


def write_lines(path: Path, *lines: dict[str, Any] | str) -> Path:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return path


def batch(folder: Path, prompts: Path, answers: Path, *arguments: str):
    files = ("--input", prompts, "--output", answers, "--model", folder)
    return run_in_process("run_prompt.py", *files, *COMPUTING, *arguments)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def alone(folder: Path, *arguments: str) -> dict[str, Any]:
    done = run_in_process("run_prompt.py", *COMPUTING, *arguments, "--json", "--model", folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return write_lines(
        tmp_path / "prompts.jsonl", *({"id": name, "prompt": f"blue {name}"} for name in "abc")
    )


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


ONE_BY_ONE = ("--max-running", "1")


@pytest.mark.parametrize("company", [(), ONE_BY_ONE], ids=["together", "one by one"])
def test_each_line_is_answered_as_it_would_be_alone(
    tiny_folder: Path, tmp_path: Path, answers: Path, company: tuple[str, ...]
):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "你好"}]
    prompts = write_lines(
        tmp_path / "prompts.jsonl",
        {"id": "sky", "prompt": "Why?"},
        "",
        {"messages": chat, "max_new_tokens": 3},
        {"id": 7, "prompt": "Why?"},
    )
    asked = ("--max-new-tokens", "5", "--logprobs", "1", *company)
    done = batch(tiny_folder, prompts, answers, *asked)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "answers" in done.stderr
    assert "3 answers" in done.stderr
    sky, hello, seven = read(answers)
    assert [answer["id"] for answer in (sky, hello, seven)] == ["sky", 3, 7]
    why = alone(tiny_folder, "Why?", "--max-new-tokens", "5", "--logprobs", "1")
    for answer in (sky, seven):
        for key in ("text", "token_ids", "finish_reason", "stop_string"):
            assert answer[key] == why[key]
        for found, expected in zip(answer["logprobs"], why["logprobs"], strict=True):
            # In company sums are made in another order.
            assert found["logprob"] == pytest.approx(expected["logprob"], abs=1e-4)
        if company == ONE_BY_ONE:
            assert answer["logprobs"] == why["logprobs"]
        assert answer["num_prompt_tokens"] == len(why["prompt_token_ids"])
    asked = ("你好", "--system", "Be brief.", "--max-new-tokens", "3")
    assert hello["token_ids"] == alone(tiny_folder, *asked)["token_ids"]


def test_raw_and_system_are_for_every_prompt(tiny_folder: Path, prompts: Path, answers: Path):
    for option in (("--raw",), ("--system", "Be brief.")):
        answers.unlink(missing_ok=True)
        assert (
            batch(tiny_folder, prompts, answers, "--max-new-tokens", "3", *option).returncode == 0
        )
        asked = ("blue a", "--max-new-tokens", "3", *option)
        assert read(answers)[0]["token_ids"] == alone(tiny_folder, *asked)["token_ids"]


def test_whether_to_think_is_told_to_the_template_of_every_prompt(tmp_path: Path, answers: Path):
    template = CHAT_TEMPLATE + "{% if enable_thinking is false %}{{ 'blue' }}{% endif %}"
    folder = write_tiny_checkpoint(tmp_path / "thinks", chat_template=template)
    chat = {"messages": [{"role": "user", "content": "Why?"}]}
    prompts = write_lines(tmp_path / "prompts.jsonl", {"prompt": "Why?"}, chat)
    lengths = {}
    for option in ("--thinking", "--no-thinking"):
        answers.unlink(missing_ok=True)
        done = batch(folder, prompts, answers, "--max-new-tokens", "2", option)
        assert done.returncode == 0, done.stderr
        asked = alone(folder, "Why?", "--max-new-tokens", "2", option)
        for answer in read(answers):
            assert answer["num_prompt_tokens"] == len(asked["prompt_token_ids"])
            assert answer["token_ids"] == asked["token_ids"]
        lengths[option] = len(asked["prompt_token_ids"])
    assert lengths["--no-thinking"] > lengths["--thinking"]


def test_too_little_memory_is_no_answer_and_ends_the_run(
    tiny_folder: Path, prompts: Path, answers: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        free = iter([10**9])  # for the weights, and none is left
        patch.setattr("augur.free_memory.free_memory_bytes", lambda _: next(free, 0))
        done = batch(tiny_folder, prompts, answers, *SAMPLED)
        assert done.returncode == 2
        assert "the keys and values of 144 tokens need 0.0 MB on cpu, and 0.0 MB are" in done.stderr
        assert not answers.exists()
    with monkeypatch.context() as patch:

        def no_room(*_: object) -> None:
            if answers.read_bytes():
                raise NoRoomError("no room")

        patch.setattr(LLM, "_check_cache_fits", no_room)
        done = batch(tiny_folder, prompts, answers, *SAMPLED, *ONE_BY_ONE)
        assert done.returncode == 2
        assert f"{prompts}:2: no room" in done.stderr
    assert [answer["id"] for answer in read(answers)] == ["a"]
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    assert [answer["id"] for answer in read(answers)] == ["a", "b", "c"]


def test_a_draw_depends_on_seed_and_id_and_not_on_place_or_neighbours(
    tiny_folder: Path, tmp_path: Path
):
    def texts(name: str, lines: list[dict[str, Any]], *more: str) -> dict[str, list[int]]:
        prompts, answers = write_lines(tmp_path / f"{name}.in", *lines), tmp_path / f"{name}.out"
        assert batch(tiny_folder, prompts, answers, *SAMPLED, *more).returncode == 0
        return {answer["id"]: answer["token_ids"] for answer in read(answers)}

    lines = [{"id": name, "prompt": "blue"} for name in "abc"]
    forward = texts("forward", lines)
    assert texts("backward", lines[::-1]) == forward
    assert texts("one", lines[1:2])["b"] == forward["b"]
    assert len({tuple(token_ids) for token_ids in forward.values()}) == 3
    assert texts("seed 0", lines, "--seed", "0") == forward
    other = texts("seed 1", lines, "--seed", "1")
    assert all(other[name] != forward[name] for name in "abc")
    # 1 and "1" are two ids.
    both = texts("both", [{"id": 1, "prompt": "blue"}, {"id": "1", "prompt": "blue"}])
    assert both[1] != both["1"]


def test_the_seed_in_an_answer_gives_that_answer_alone(
    tiny_folder: Path, tmp_path: Path, answers: Path
):
    lines = [{"id": "a", "prompt": "blue"}, {"id": "b", "prompt": "blue", "seed": 9}]
    prompts = write_lines(tmp_path / "prompts.jsonl", *lines)
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    first, second = read(answers)
    assert second["seed"] == 9
    for answer in (first, second):
        again = alone(tiny_folder, "blue", *SAMPLED, "--seed", str(answer["seed"]))
        assert again["token_ids"] == answer["token_ids"]


def test_a_prompt_that_cannot_be_answered_becomes_an_error_and_the_rest_goes_on(
    tiny_folder: Path, tmp_path: Path, answers: Path
):
    lines = [{"prompt": "blue " * 600}, {"prompt": "blue"}, {"prompt": "\ud800"}]
    prompts = write_lines(tmp_path / "prompts.jsonl", *lines)
    done = batch(tiny_folder, prompts, answers, "--max-new-tokens", "2")
    assert done.returncode == 1
    assert "2 of 3 prompts could not be answered" in done.stderr
    too_long, fine, surrogate = read(answers)
    assert "the model has 512 positions" in too_long["error"]
    assert "text" not in too_long
    assert len(fine["token_ids"]) == 2
    assert "surrogate" in surrogate["error"]
    # Taken up again it is complete, and the errors are still there.
    before = answers.read_bytes()
    again = batch(tiny_folder, prompts, answers, "--max-new-tokens", "2")
    assert (again.returncode, answers.read_bytes()) == (1, before)


def test_a_complete_file_is_left_as_it_is_without_loading_the_model(
    tiny_folder: Path, prompts: Path, answers: Path, monkeypatch: pytest.MonkeyPatch
):
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    before = answers.read_bytes()
    monkeypatch.setattr("augur.batch.job.load", None)
    done = batch(tiny_folder, prompts, answers, *SAMPLED)
    assert (done.returncode, answers.read_bytes()) == (0, before)
    assert "3 answers, 3 of them from before; it is complete, nothing was done" in done.stderr


def test_prompts_added_later_are_answered_and_the_others_not_again(
    tiny_folder: Path, prompts: Path, answers: Path
):
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    before = answers.read_bytes()
    with prompts.open("a") as file:
        file.write('{"id": "d", "prompt": "blue"}\n')
    done = batch(tiny_folder, prompts, answers, *SAMPLED)
    assert done.returncode == 0, done.stderr
    assert answers.read_bytes().startswith(before)
    assert [answer["id"] for answer in read(answers)] == ["a", "b", "c", "d"]


OTHER_SETTINGS = {
    ("--temperature", "0.5", "--max-new-tokens", "8"): "sampling.temperature was 1.0 and is 0.5",
    (*SAMPLED[:3], "9"): "max_new_tokens was 8 and is 9",
    (*SAMPLED, "--seed", "1"): "sampling.seed was 0 and is 1",
    (*SAMPLED, "--stop", "x"): 'stop_strings was [] and is ["x"]',
    (*SAMPLED, "--raw"): "raw was false and is true",
    (*SAMPLED, "--system", "x"): 'system was null and is "x"',
    (*SAMPLED, "--dtype", "bfloat16"): 'dtype was "float32" and is "bfloat16"',
    (*SAMPLED, "--attention", "sdpa"): 'attention was "eager" and is "sdpa"',
    (*SAMPLED, "--thinking"): "thinking was null and is true",
    (*SAMPLED, *ONE_BY_ONE, "--prefill-chunk", "8"): "prefill_chunk was 1024 and is 8",
}


def test_answers_made_with_other_settings_are_refused_and_left_alone(
    tiny_folder: Path, prompts: Path, answers: Path
):
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    whole = answers.read_bytes()
    cut = whole[: whole.rindex(b"\n", 0, -1) + 40]  # a run that was broken off
    for settings, said in OTHER_SETTINGS.items():
        answers.write_bytes(cut)
        done = batch(tiny_folder, prompts, answers, *settings)
        assert done.returncode == 2
        assert f"{answers}:1: made with other settings: {said}. Give the same" in done.stderr
        assert answers.read_bytes() == cut
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    assert answers.read_bytes() == whole


def test_answers_of_another_model_are_refused_even_under_its_name(
    tmp_path: Path, prompts: Path, answers: Path
):
    folder = write_tiny_checkpoint(tmp_path / "model")
    assert batch(folder, prompts, answers, *SAMPLED).returncode == 0
    write_tiny_checkpoint(folder, seed=1)
    done = batch(folder, prompts, answers, *SAMPLED)
    assert done.returncode == 2
    assert "checkpoint_sha256 was" in done.stderr


def test_answers_to_other_prompts_are_refused(tiny_folder: Path, prompts: Path, answers: Path):
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    whole = answers.read_bytes()
    lines = [json.loads(line) for line in prompts.read_text().splitlines()]
    for changed, said in (
        (
            [{"id": "a", "prompt": "red"}, *lines[1:]],
            ":1: answers 'a', and line 1 of the input asks",
        ),
        ([lines[0] | {"max_new_tokens": 2}, *lines[1:]], ":1: answers 'a', and line 1"),
        ([lines[0], lines[2]], ":2: answers 'b', which the input does not have"),
    ):
        write_lines(prompts, *changed)
        done = batch(tiny_folder, prompts, answers, *SAMPLED)
        assert done.returncode == 2
        assert f"{answers}{said}" in done.stderr
        assert answers.read_bytes() == whole
    # The same said otherwise is the same.
    write_lines(prompts, '{ "prompt": "blue a",  "id": "a" }', *lines[1:])
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    answers.write_bytes(whole + whole.splitlines(keepends=True)[0])
    done = batch(tiny_folder, prompts, answers, *SAMPLED)
    assert f"{answers}:4: answers 'a' a second time, after line 1" in done.stderr


FOREIGN = {
    "a text": b"my notes\nof today\n",
    "a text without an end": b"my notes",
    "prompts": b'{"id": "a", "prompt": "x"}',
    "another format": b'{"format": "augur-answer/0", "id": "a"}\n',
    "half an answer of another format": b'{"format": "augur-ground',
    "an answer without its provenance": b'{"format": "augur-answer/1", "id": "a"}\n',
    "lists in lists in lists": b"[" * 200_000 + b"\n",
    "lists in lists in lists without an end": b"[" * 200_000,
    "a key of another order": b'{"format": "augur-answer/1", "text": "x',
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_holds_something_else_is_never_touched(
    tiny_folder: Path, prompts: Path, answers: Path, name: str
):
    answers.write_bytes(FOREIGN[name])
    done = batch(tiny_folder, prompts, answers, *SAMPLED)
    assert done.returncode == 2
    assert f"{answers}:1: not " in done.stderr
    assert answers.read_bytes() == FOREIGN[name]


def test_a_second_process_on_the_same_answers_is_refused(
    tiny_folder: Path, prompts: Path, answers: Path, tmp_path: Path
):
    same = tmp_path / "elsewhere.jsonl"
    same.symlink_to(answers)
    with only_process_on(answers):
        for path in (answers, same):
            done = batch(tiny_folder, prompts, path, *SAMPLED)
            assert done.returncode == 2
            assert "another process is writing to it" in done.stderr
            assert (tmp_path / ".answers.jsonl.lock").exists(), "it is not the refused one's"
    assert not answers.exists()
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0


WRONG_LINES = {
    '{"prompt": ': "the line is not JSON",
    '"prompt"': "expected a JSON object",
    '{"id": "z"}': 'expected either "prompt" or "messages"',
    '{"prompt": "x", "messages": []}': 'expected either "prompt" or "messages"',
    '{"prompt": 5}': "prompt is 5, expected a string",
    '{"prompt": "x", "temperature": 1}': "'temperature' is not supported, expected id, prompt",
    '{"prompt": "x", "id": 1.5}': "id is 1.5",
    '{"prompt": "x", "id": true}': "id is True",
    '{"prompt": "x", "id": "a"}': "the id 'a' is that of line 1 already",
    '{"prompt": "x", "id": 3}\n{"prompt": "x"}': "the id 3 is that of line 2 already",
    '{"prompt": "x", "max_new_tokens": 0}': "max_new_tokens is 0",
    '{"prompt": "x", "max_new_tokens": true}': "max_new_tokens is True",
    '{"prompt": "x", "seed": -1}': "seed is -1",
    '{"prompt": "x", "seed": 1}': "it has a seed, and without a temperature nothing is drawn",
    '{"prompt": "x", "max_new_tokens": 1}': "min_new_tokens is 2, expected 0 to max_new_tokens",
    '{"prompt": "a", "prompt": "bbb"}': 'the line has the key "prompt" twice',
    '{"messages": [{"role": "user", "role": "x"}]}': 'the line has the key "role" twice',
    "[" * 200_000: "the line is nested more than 64 deep",
    '{"prompt": ' + "[" * 200_000: "the line is nested more than 64 deep",
    '{"messages": [{"role": "user", "content": NaN}]}': "the line holds NaN",
    '{"messages": []}': "messages is []",
    '{"messages": ["x"]}': "a message is 'x'",
    '{"messages": [{"content": "x"}]}': 'expected an object with a "role"',
}


@pytest.mark.parametrize("wrong", WRONG_LINES)
def test_a_wrong_line_is_named_before_the_model_is_loaded(
    tiny_folder: Path, tmp_path: Path, answers: Path, wrong: str, monkeypatch: pytest.MonkeyPatch
):
    prompts = write_lines(tmp_path / "prompts.jsonl", {"id": "a", "prompt": "blue"}, wrong)
    monkeypatch.setattr("augur.batch.job.load", None)
    done = batch(tiny_folder, prompts, answers, "--min-new-tokens", "2")
    assert done.returncode == 2
    number = 2 + wrong.count("\n")
    assert f"{prompts}:{number}: " in done.stderr
    assert WRONG_LINES[wrong] in done.stderr
    assert not answers.exists()


@pytest.mark.parametrize("note", [b"my own note", b'{"format": "mine"}', b"\x00" * 9, b" "])
def test_text_after_the_answers_that_is_not_ours_is_not_cut_off(
    tiny_folder: Path, prompts: Path, answers: Path, note: bytes
):
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    whole = answers.read_bytes()
    # After the last line, after a line whose end an editor took away, and after some of the lines.
    some = b"".join(whole.splitlines(keepends=True)[:2])
    for before, number in ((whole, 4), (whole.removesuffix(b"\n"), 3), (some, 3)):
        answers.write_bytes(before + note)
        done = batch(tiny_folder, prompts, answers, *SAMPLED)
        assert done.returncode == 2
        assert f"{answers}:{number}: not the beginning of an answer" in done.stderr
        assert answers.read_bytes() == before + note


def test_every_wrong_line_is_named_at_once(tiny_folder: Path, tmp_path: Path, answers: Path):
    good = {"prompt": "blue"}
    prompts = write_lines(tmp_path / "prompts.jsonl", "x", good, "{}", *["x"] * 30)
    done = batch(tiny_folder, prompts, answers)
    assert f"{prompts}:1: the line is not JSON" in done.stderr
    assert f"{prompts}:3: expected either" in done.stderr
    assert "... and 12 more" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"", "no prompt in it"),
        (b'{"prompt": "x"}\n{"prompt": "\xff"}\n', ":2: not UTF-8 (byte 28 of the file)"),
    ],
)
def test_a_file_of_prompts_that_cannot_be_used_is_refused(
    tiny_folder: Path, tmp_path: Path, answers: Path, content: bytes | None, said: str
):
    prompts = tmp_path / "prompts.jsonl"
    if content is not None:
        prompts.write_bytes(content)
    done = batch(tiny_folder, prompts, answers)
    assert done.returncode == 2
    assert f"{prompts}" in done.stderr
    assert said in done.stderr


def test_marks_and_line_ends_of_windows_are_no_part_of_a_prompt(tmp_path: Path):
    path = tmp_path / "prompts.jsonl"
    # U+2028 separates lines for a reader, and none for JSON.
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a\xe2\x80\xa8b"}\r\n\r\n{"prompt": "c\\r"}\r\n')
    prompts = read_prompts(path)
    assert [(prompt.id, prompt.content) for prompt in prompts] == [(1, "a\u2028b"), (3, "c\r")]


def test_options_that_do_not_go_with_a_file_are_refused(
    tiny_folder: Path, tmp_path: Path, prompts: Path, answers: Path
):
    chat = write_lines(tmp_path / "chat", {"messages": [{"role": "user", "content": "x"}]})
    for arguments, said in (
        ((prompts, answers, "--json"), "--input takes the place of PROMPT, --json and --n"),
        ((prompts, answers, "Why?"), "--input takes the place of PROMPT"),
        ((prompts, answers, *SAMPLED, "--n", "2"), "--input takes the place of"),
        ((prompts, prompts), "it is the input, too"),
        ((prompts, tmp_path / "no" / "folder"), f"there is no folder {tmp_path}/no"),
        ((prompts, tmp_path), "not a regular file"),
        ((chat, answers, "--raw"), f'{chat}:1: raw text does not go with "messages"'),
        (
            (chat, answers, "--system", "x"),
            f"{chat}:1: a system message does not",
        ),
        ((prompts, answers, "--stop-token-id", "9999"), "--stop-token-id names token 9999"),
        ((prompts, answers, "--logit-bias", "9999=1"), "--logit-bias names token 9999"),
        ((prompts, answers, "--prefill-chunk", "8"), "--prefill-chunk is about a prompt that is"),
        ((prompts, answers, "--max-running", "0"), "--max-running is 0, expected an integer from"),
        ((prompts, answers, "--batch-tokens", "8"), "--batch-tokens is 8, fewer than --max-run"),
        ((prompts, answers, "--cache-memory", "much"), "--cache-memory is 'much', expected a size"),
        (
            (prompts, answers, "--cache-memory", "4KB"),
            f"{prompts}:1: prompt and answer may take 276 tokens, whose keys and values need",
        ),
        (
            (prompts, answers, "--cache-memory", "1GB", *ONE_BY_ONE),
            "--cache-memory is about texts that are answered together, and --max-running 1",
        ),
    ):
        done = batch(tiny_folder, *arguments)
        assert done.returncode == 2
        assert said in done.stderr
    assert not (tmp_path / "no").exists()
    for option in ("--input", "--output"):
        done = run_in_process("run_prompt.py", option, prompts, "--model", tiny_folder)
        assert done.returncode == 2
        assert "--input and --output go together" in done.stderr


def test_each_answer_is_on_the_disk_whole_before_the_next_is_begun(
    tiny_folder: Path, prompts: Path, answers: Path, monkeypatch: pytest.MonkeyPatch
):
    found: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda _descriptor: found.append(answers.read_bytes()))
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    whole = answers.read_bytes().splitlines(keepends=True)
    assert found == [b"".join(whole[: n + 1]) for n in range(3)]


def test_the_generation_config_is_for_every_prompt_when_asked_for(
    tmp_path: Path, prompts: Path, answers: Path
):
    folder = write_tiny_checkpoint(tmp_path / "model")
    settings = {"do_sample": True, "temperature": 0.9, "top_k": 20, "max_new_tokens": 4}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    assert batch(folder, prompts, answers, "--use-generation-config").returncode == 0
    first = read(answers)[0]
    assert first["made_with"]["sampling"]["temperature"] == 0.9
    given = decide({"temperature": 0.9, "top_k": 20, "max_new_tokens": 4})
    assert first["seed"] == read_prompts(prompts)[0].options(given.with_seed(0)).sampling.seed


@pytest.mark.gate
def test_wherever_a_line_broke_off_it_is_cut_off_and_written_again(
    tiny_folder: Path, prompts: Path, answers: Path, monkeypatch: pytest.MonkeyPatch
):
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    whole = answers.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)  # thousands of them take long
    lines = whole.splitlines(keepends=True)
    for first in range(3):
        before, last = b"".join(lines[:first]), json.loads(lines[first])
        for cut in range(len(lines[first])):
            answers.write_bytes(before + lines[first][:cut])
            kept, num_bytes = read_answers(answers)
            assert [answer["id"] for answer in kept] == ["a", "b", "c"][:first]
            assert num_bytes == len(before)
            writer = AnswerWriter(answers, num_bytes)
            writer.write(last)
            writer.close()
            assert answers.read_bytes() == before + lines[first]
    # And through the program.
    for cut in (0, 1, 200, len(lines[2]) - 1):
        answers.write_bytes(b"".join(lines[:2]) + lines[2][:cut])
        done = batch(tiny_folder, prompts, answers, *SAMPLED)
        assert done.returncode == 0, done.stderr
        assert answers.read_bytes() == whole


def test_ctrl_c_leaves_whole_answers_and_says_how_to_go_on(
    tiny_folder: Path, prompts: Path, answers: Path, monkeypatch: pytest.MonkeyPatch
):
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    whole = answers.read_bytes()
    answers.unlink()
    write = AnswerWriter.write
    written: list[int] = []

    def interrupted_at_the_third(*arguments):
        written.append(1)
        if len(written) == 3:
            raise KeyboardInterrupt
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(AnswerWriter, "write", interrupted_at_the_third)
        done = batch(tiny_folder, prompts, answers, *SAMPLED)
    assert done.returncode == 130
    assert "the same command goes on" in done.stderr
    assert answers.read_bytes() == b"".join(whole.splitlines(keepends=True)[:2])
    assert batch(tiny_folder, prompts, answers, *SAMPLED).returncode == 0
    assert answers.read_bytes() == whole


def test_what_else_lies_in_the_checkpoints_folder_is_neither_opened_nor_counted(
    tmp_path: Path, prompts: Path, answers: Path
):
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    os.mkfifo(folder / "z.txt")  # to open it would wait for ever
    (folder / "endless.json").symlink_to("/dev/zero")
    assert batch(folder, prompts, answers, *SAMPLED).returncode == 0
    before = answers.read_bytes()
    (folder / "notes.txt").write_text("mine")
    (folder / "answers.json").write_text("{}")
    done = batch(folder, prompts, answers, *SAMPLED)
    assert (done.returncode, answers.read_bytes()) == (0, before)


@pytest.mark.parametrize("file", ["tokenizer_config.json", "generation_config.json"])
def test_another_file_that_is_loaded_is_another_checkpoint(
    tmp_path: Path, prompts: Path, answers: Path, file: str
):
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    assert batch(folder, prompts, answers, *SAMPLED).returncode == 0
    path = folder / file
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    done = batch(folder, prompts, answers, *SAMPLED)
    assert done.returncode == 2
    assert "checkpoint_sha256 was" in done.stderr


def test_a_pipe_in_the_place_of_a_tokenizer_file_is_refused(
    tmp_path: Path, prompts: Path, answers: Path
):
    folder = write_tiny_checkpoint(tmp_path / "checkpoint")
    (folder / "tokenizer_config.json").unlink()
    os.mkfifo(folder / "tokenizer_config.json")
    done = batch(folder, prompts, answers, *SAMPLED)
    assert done.returncode == 2
    assert f"{folder / 'tokenizer_config.json'}: is a pipe, expected a file" in done.stderr
