"""Rendering a chat with the checkpoint's template."""

import enum
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from augur_tok import ChatTemplateError, Tokenizer

USER = [{"role": "user", "content": "Hi"}]
Opener = Callable[[str], Tokenizer]
Copier = Callable[[Path, dict[str, Any]], Path]


def test_a_chat_reads_as_the_template_says(tokenizer: Tokenizer) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    turns = (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
    )
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=False) == turns
    assert tokenizer.apply_chat_template(messages) == turns + "<|im_start|>assistant\n"


def test_the_default_system_message_is_the_templates_and_an_empty_one_stays_empty(
    tokenizer: Tokenizer,
) -> None:
    assert tokenizer.apply_chat_template(USER).startswith("<|im_start|>system\nYou are small.<|")
    empty = [{"role": "system", "content": ""}, *USER]
    assert tokenizer.apply_chat_template(empty).startswith("<|im_start|>system\n<|im_end|>")


def test_tools_are_written_as_json_without_html_or_ascii_escapes(tokenizer: Tokenizer) -> None:
    text = tokenizer.apply_chat_template(USER, tools=[{"name": "größer", "rule": "a < b & 'c'"}])
    assert '\n{"name": "größer", "rule": "a < b & \'c\'"}<|im_end|>' in text


def test_variables_and_named_tokens_reach_the_template(with_template: Opener) -> None:
    tokenizer = with_template(
        "{{ eos_token }}|{{ pad_token }}|{{ bos_token is defined }}|{{ documents }}|{{ mood }}"
    )
    text = tokenizer.apply_chat_template(USER, mood="calm")
    assert text == "<|im_end|>|<|endoftext|>|False|None|calm"


def test_blocks_leave_no_lines_or_indents_behind(with_template: Opener) -> None:
    tokenizer = with_template("a\n  {% if true %}\nb\n  {% endif %}\nc")
    assert tokenizer.apply_chat_template(USER) == "a\nb\nc"


def test_loop_controls_and_generation_blocks_are_known(with_template: Opener) -> None:
    tokenizer = with_template(
        "{% for n in [1, 2, 3, 4] %}{% if n == 1 %}{% continue %}{% endif %}"
        "{% if n == 4 %}{% break %}{% endif %}"
        "{% generation %}<{{ n }}>{% endgeneration %}{% endfor %}"
    )
    assert tokenizer.apply_chat_template(USER) == "<2><3>"


def test_a_template_may_ask_for_the_date(with_template: Opener) -> None:
    tokenizer = with_template("{{ strftime_now('%Y-%m-%d') }}")
    before = datetime.now().date().isoformat()
    text = tokenizer.apply_chat_template(USER)
    assert text in (before, datetime.now().date().isoformat())


def test_a_message_key_that_is_none_counts_as_absent(with_template: Opener) -> None:
    tokenizer = with_template("{{ messages[0].content is defined }}")
    call = {"role": "assistant", "content": None, "tool_calls": [{"name": "f", "arguments": {}}]}
    assert tokenizer.apply_chat_template([call]) == "False"


def test_reasoning_is_found_under_each_of_its_names(with_template: Opener) -> None:
    tokenizer = with_template("{{ messages[0].reasoning_content }}")
    for key in ("reasoning_content", "thinking", "reasoning"):
        message = {"role": "assistant", "content": "", key: "because"}
        assert tokenizer.apply_chat_template([message]) == "because"


def test_an_enum_counts_as_its_value(tokenizer: Tokenizer) -> None:
    class Role(str, enum.Enum):  # noqa: UP042 (its str() is not its value)
        USER = "user"

    assert tokenizer.apply_chat_template([{"role": Role.USER, "content": "Hi"}]) == (
        tokenizer.apply_chat_template(USER)
    )


def test_the_messages_are_left_as_they_were(tokenizer: Tokenizer) -> None:
    messages = [{"role": "user", "content": "<tool_call>", "name": None}]
    tokenizer.encode_chat(messages)
    assert messages == [{"role": "user", "content": "<tool_call>", "name": None}]


@pytest.mark.parametrize("call", ["apply_chat_template", "encode_chat"])
def test_without_a_template_raw_text_is_advised(
    folder: Path, with_files: Copier, call: str
) -> None:
    tokenizer = Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": None}))
    with pytest.raises(ChatTemplateError, match=r"no default chat template\. Use raw text"):
        getattr(tokenizer, call)(USER)


def test_a_template_that_refuses_the_messages_says_why(with_template: Opener) -> None:
    tokenizer = with_template("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        tokenizer.apply_chat_template(USER)


@pytest.mark.parametrize(
    "template", ["{{ messages[5].content + 'x' }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}"]
)
def test_a_template_that_fails_is_reported(with_template: Opener, template: str) -> None:
    with pytest.raises(ChatTemplateError, match="failed on these messages"):
        with_template(template).apply_chat_template(USER)


@pytest.mark.parametrize("template", ["{% if %}", "{{ 1 | no_such_filter }}", "{% break %}"])
def test_a_template_that_is_not_jinja_is_reported_and_raw_text_still_works(
    with_template: Opener, template: str
) -> None:
    tokenizer = with_template(template)
    assert tokenizer.encode("a")
    with pytest.raises(ChatTemplateError, match="not valid Jinja"):
        tokenizer.apply_chat_template(USER)


@pytest.mark.parametrize("change", ["messages.append(1)", "messages[0].update(role='x')"])
def test_a_template_cannot_change_the_messages(with_template: Opener, change: str) -> None:
    with pytest.raises(ChatTemplateError, match="unsafe"):
        with_template("{{ " + change + " }}").apply_chat_template(USER)


@pytest.mark.parametrize("path", ["''.__class__", "strftime_now.__globals__"])
def test_a_template_cannot_reach_pythons_internals(with_template: Opener, path: str) -> None:
    with pytest.raises(ChatTemplateError, match=r"unsafe|has no attribute"):
        with_template("{{ " + path + ".x }}").apply_chat_template(USER)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("Hi", "messages is a str"),
        ({"role": "user", "content": "Hi"}, "messages is a dict"),
        (None, "messages is a NoneType"),
        ([], "messages is empty"),
        (["Hi"], r"messages\[0\] is a str"),
        ([{"content": "Hi"}], r"messages\[0\] has the role None"),
        ([{"role": 1, "content": "Hi"}], r"messages\[0\] has the role 1"),
        ([*USER, {"role": "user"}], r"messages\[1\] \(role 'user'\) has the content None"),
        ([{"role": "user", "content": 5}], "has the content 5"),
        ([{"role": "user", "content": ["Hi"]}], r"has the content \['Hi'\]"),
        ([{"role": "user", "content": "Hi", "at": object()}], r"messages\[0\]\['at'\] is a object"),
    ],
)
def test_messages_of_the_wrong_shape_are_refused(
    tokenizer: Tokenizer, messages: Any, reason: str
) -> None:
    with pytest.raises(ChatTemplateError, match=reason):
        tokenizer.apply_chat_template(messages)


@pytest.mark.parametrize("call", ["apply_chat_template", "encode_chat"])
def test_messages_that_nest_without_end_are_refused(tokenizer: Tokenizer, call: str) -> None:
    itself: list[Any] = []
    itself.append(itself)
    deep: Any = "x"
    for _ in range(64):
        deep = {"a": deep}
    message = {"role": "assistant", "content": "Hi"}
    for nested in (itself, {"a": deep}):
        with pytest.raises(ChatTemplateError, match=r"^messages\[0\].* nested more than 64 deep"):
            getattr(tokenizer, call)([{**message, "tool_calls": nested}])
    assert getattr(tokenizer, call)([{**message, "tool_calls": deep}])


@pytest.mark.parametrize(
    ("tools", "reason"), [({"name": "f"}, "tools is a dict"), ([print], r"tools\[0\] is a builtin")]
)
def test_tools_of_the_wrong_shape_are_refused(
    tokenizer: Tokenizer, tools: Any, reason: str
) -> None:
    with pytest.raises(ChatTemplateError, match=reason):
        tokenizer.apply_chat_template(USER, tools=tools)


def test_an_option_that_augur_lacks_is_refused_by_name(tokenizer: Tokenizer) -> None:
    with pytest.raises(ChatTemplateError, match="continue_final_message"):
        tokenizer.apply_chat_template(USER, continue_final_message=True)
