"""A chat template built as Qwen3's is: thinking on and off, earlier thoughts left out, tools."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from augur.errors import PromptError
from augur.llm import LLM, load
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_tok import Tokenizer
from program_run import run_in_process

# What a published template of this kind does, written anew: tools come first; the last message of
# a person is found from the end; what the assistant thought before it is dropped; results of tools
# stand in one turn of the user; an empty thought opens the answer where thinking is off.
TEMPLATE = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- 'Functions:' }}
    {%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set asked = namespace(searching=true, at=messages | length - 1) %}
{%- for message in messages[::-1] %}
    {%- set place = messages | length - 1 - loop.index0 %}
    {%- set is_result = message.content is string
        and message.content.startswith('<tool_response>')
        and message.content.endswith('</tool_response>') %}
    {%- if asked.searching and message.role == 'user' and not is_result %}
        {%- set asked.searching = false %}
        {%- set asked.at = place %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set text = message.content if message.content is string else '' %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + text + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in text %}
            {%- set thought = (text.split('</think>') | first).rstrip('\\n') %}
            {%- set thought = (thought.split('<think>') | last).lstrip('\\n') %}
            {%- set text = (text.split('</think>') | last).lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > asked.at and (loop.last or thought) %}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + text.lstrip('\\n') }}
        {%- else %}
            {{- text }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- set function = call.function or call %}
            {{- '\\n' if not loop.first or text else '' }}
            {{- '<tool_call>\\n{"name": "' + function.name + '", "arguments": ' }}
            {{- function.arguments if function.arguments is string
                else function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + text + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

ASK = {"role": "user", "content": "Why is the sky blue?"}
THOUGHT = {"role": "assistant", "content": "<think>\nAir.\n</think>\n\nScattering."}
AGAIN = {"role": "user", "content": "And at dusk?"}
CALL = {"function": {"name": "look", "arguments": {"where": "größer"}}}
CHATS: dict[str, list[dict[str, Any]]] = {
    "one question": [ASK],
    "a system message": [{"role": "system", "content": "Be brief."}, ASK],
    "an earlier thought": [ASK, THOUGHT, AGAIN],
    "a thought apart": [
        ASK,
        {"role": "assistant", "content": "Scattering.", "reasoning_content": "Air."},
        AGAIN,
    ],
    "a thought at the end": [ASK, THOUGHT],
    "tools": [
        ASK,
        {"role": "assistant", "content": "<think>\nLook.\n</think>\n\n", "tool_calls": [CALL]},
        {"role": "tool", "content": "red"},
        {"role": "tool", "content": "violet"},
        {"role": "assistant", "content": "Both."},
        AGAIN,
    ],
    "results of tools after the last question": [
        ASK,
        {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "red"},
    ],
    "a result in the user's name": [
        ASK,
        THOUGHT,
        {"role": "user", "content": "<tool_response>\nred\n</tool_response>"},
    ],
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("qwen3") / "checkpoint"
    return write_tiny_checkpoint(target, chat_template=TEMPLATE, model_type="qwen3", head_dim=8)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def referee(folder: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("tools", [None, [TOOL]], ids=["no tools", "a tool"])
@pytest.mark.parametrize("add_generation_prompt", [True, False], ids=["prompt", "whole"])
@pytest.mark.parametrize(
    "thinking", [{}, {"enable_thinking": True}, {"enable_thinking": False}], ids=str
)
@pytest.mark.parametrize("name", CHATS)
def test_every_chat_is_written_as_transformers_writes_it(
    tokenizer: Tokenizer,
    referee: PreTrainedTokenizerBase,
    name: str,
    thinking: dict[str, bool],
    add_generation_prompt: bool,
    tools: list[dict[str, Any]] | None,
) -> None:
    options = {"add_generation_prompt": add_generation_prompt, "tools": tools, **thinking}
    expected = referee.apply_chat_template(CHATS[name], tokenize=False, **options)
    assert tokenizer.apply_chat_template(CHATS[name], **options) == expected
    token_ids = tokenizer.encode_chat(CHATS[name], **options)
    assert tokenizer.decode(token_ids) == expected


def test_thinking_off_opens_the_answer_with_an_empty_thought(tokenizer: Tokenizer) -> None:
    question = "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.apply_chat_template([ASK]) == question
    assert tokenizer.apply_chat_template([ASK], enable_thinking=True) == question
    off = tokenizer.apply_chat_template([ASK], enable_thinking=False)
    assert off == question + "<think>\n\n</think>\n\n"


@pytest.mark.parametrize("name", ["an earlier thought", "a thought apart"])
def test_a_thought_before_the_last_question_is_left_out(tokenizer: Tokenizer, name: str) -> None:
    written = tokenizer.apply_chat_template(CHATS[name], add_generation_prompt=False)
    assert written == (
        "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n"
        "<|im_start|>assistant\nScattering.<|im_end|>\n"
        "<|im_start|>user\nAnd at dusk?<|im_end|>\n"
    )


def test_a_thought_after_it_is_kept(tokenizer: Tokenizer) -> None:
    kept = "<|im_start|>assistant\n<think>\nAir.\n</think>\n\nScattering.<|im_end|>\n"
    written = tokenizer.apply_chat_template([ASK, THOUGHT], add_generation_prompt=False)
    assert written.endswith(kept)


# Through the engine and the program


@pytest.fixture(scope="module")
def engine(folder: Path) -> LLM:
    return load(folder, device="cpu", dtype="float32")


def test_the_engine_hands_the_choice_to_the_template(engine: LLM) -> None:
    def ids(thinking: bool | None) -> list[int]:
        return engine.encode("Why?", thinking=thinking)

    assert ids(None) == ids(True)
    empty = engine.tokenizer.encode("<think>\n\n</think>\n\n", allow_special=True)
    assert ids(False) == ids(True) + empty


def test_a_choice_that_the_template_does_not_know_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_checkpoint(tmp_path / "plain")
    plain = load(folder, device="cpu", dtype="float32")
    for thinking in (True, False):
        with pytest.raises(PromptError, match="the same with thinking and without"):
            plain.encode("Why?", thinking=thinking)


def test_a_choice_without_a_template_is_refused(engine: LLM) -> None:
    with pytest.raises(PromptError, match="thinking belongs to a chat template"):
        engine.encode("Why?", raw=True, thinking=False)


def test_the_program_takes_the_choice(folder: Path, engine: LLM) -> None:
    def prompt_token_ids(*option: str) -> list[int]:
        asked = ("Why?", "--model", folder, "--max-new-tokens", "1", "--json", "--device", "cpu")
        done = run_in_process("run_prompt.py", *asked, *option)
        assert done.returncode == 0, done.stderr
        found: list[int] = json.loads(done.stdout)["prompt_token_ids"]
        return found

    assert prompt_token_ids("--no-thinking") == engine.encode("Why?", thinking=False)
    assert prompt_token_ids("--thinking") == prompt_token_ids()
    refused = run_in_process(
        "run_prompt.py", "Why?", "--model", folder, "--raw", "--no-thinking", "--device", "cpu"
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "a choice about thinking" in refused.stderr
