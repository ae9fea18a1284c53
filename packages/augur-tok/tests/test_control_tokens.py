"""Which tokens of a rendered chat are control tokens."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from augur_tok import ChatTemplateError, Tokenizer
from augur_tok.control_marks import PRIVATE_USE

Opener = Callable[[str], Tokenizer]

# A template that takes an assistant's reasoning out of its content, as Qwen3's does.
THINKING = """\
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- set content = '<think>\\n' + thought + '\\n</think>\\n\\n' + content %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}"""


def control_ids(tokenizer: Tokenizer, token_ids: list[int]) -> list[str]:
    """The added tokens among the ids, by their text."""
    added = (*tokenizer.special_tokens, "<tool_call>", "</tool_call>", "<think>", "</think>")
    text_of = {tokenizer.token_id(token): token for token in added}
    return [text_of[token_id] for token_id in token_ids if token_id in text_of]


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


# What the small template writes for one message: system turn, user turn, generation prompt.
ONE_TURN = ["<|im_start|>", "<|im_end|>", "<|im_start|>", "<|im_end|>", "<|im_start|>"]

# Texts made of the pieces that could go wrong, and of ordinary ones.
ORDINARY = ["Hi", " ", "\n", "é", "e\u0301", "<", "|", ">", "12", "世"]
SPELLED = ["<|im_end|>", "<|im_", "end|>", "<|endoftext|>", "<tool_call>", "</think>", "<", " x"]
MARKS = [chr(code) for code in PRIVATE_USE[:4]]
ordinary = st.lists(st.sampled_from(ORDINARY))
spelled = st.lists(st.sampled_from([*SPELLED, *MARKS]))


@settings(deadline=None, derandomize=True)
@given(content=ordinary.map("".join))
def test_ordinary_content_gets_the_ids_of_the_rendered_text(
    tokenizer: Tokenizer, content: str
) -> None:
    messages = user(content)
    rendered = tokenizer.apply_chat_template(messages)
    assert tokenizer.encode_chat(messages) == tokenizer.encode(rendered, allow_special=True)


@settings(deadline=None, derandomize=True)
@given(content=spelled.map("".join))
def test_whatever_a_user_writes_the_control_tokens_are_the_templates(
    tokenizer: Tokenizer, content: str
) -> None:
    token_ids = tokenizer.encode_chat(user(content))
    assert control_ids(tokenizer, token_ids) == ONE_TURN
    assert tokenizer.decode(token_ids) == tokenizer.apply_chat_template(user(content))


@settings(deadline=None, derandomize=True)
@given(parts=spelled)
def test_a_control_token_spelled_across_content_blocks_stays_plain(
    tokenizer: Tokenizer, parts: list[str]
) -> None:
    messages = user([{"type": "text", "text": part} for part in parts])
    token_ids = tokenizer.encode_chat(messages)
    assert not {"<|im_end|>", "<|endoftext|>"} & set(control_ids(tokenizer, token_ids)[3:-2])
    assert control_ids(tokenizer, token_ids).count("<|im_end|>") == 2
    assert tokenizer.decode(token_ids) == tokenizer.apply_chat_template(messages)


def test_plain_content_is_encoded_as_if_no_token_stood_in_it(tokenizer: Tokenizer) -> None:
    content = "e\u0301 <|im_end|>\n<tool_call> e\u0301"
    token_ids = tokenizer.encode_chat(user(content))
    turn_start = len(token_ids) - token_ids[::-1].index(tokenizer.token_id("<|im_end|>"))
    expected = tokenizer.encode("user\n" + content)
    assert token_ids[turn_start - 1 - len(expected) : turn_start - 1] == expected


@pytest.mark.parametrize("role", ["system", "assistant", "user", "tool", "<|im_end|>"])
def test_a_special_token_in_a_message_of_any_role_stays_plain(
    tokenizer: Tokenizer, role: str
) -> None:
    messages = [{"role": role, "content": "a<|im_end|>b<|endoftext|>"}]
    ordinary_messages = [{"role": role.strip("<|>"), "content": "ab"}]
    found = control_ids(tokenizer, tokenizer.encode_chat(messages))
    assert found == control_ids(tokenizer, tokenizer.encode_chat(ordinary_messages))


@pytest.mark.parametrize(
    ("role", "expected"), [("system", 1), ("assistant", 1), ("user", 0), ("tool", 0)]
)
def test_other_added_tokens_are_tokens_in_system_and_assistant_messages_alone(
    tokenizer: Tokenizer, role: str, expected: int
) -> None:
    messages = [*user("Hi"), {"role": role, "content": "<tool_call>"}]
    found = control_ids(tokenizer, tokenizer.encode_chat(messages))
    assert found.count("<tool_call>") == expected


def test_a_special_token_in_tools_and_variables_stays_plain(with_template: Opener) -> None:
    tokenizer = with_template("<|im_start|>{{ tools | tojson }}{{ mood }}{{ eos_token }}")
    token_ids = tokenizer.encode_chat(
        user("Hi"), tools=[{"name": "<|im_end|>"}], mood="<|endoftext|>"
    )
    # The name eos_token is the checkpoint's, and so is what it stands for.
    assert control_ids(tokenizer, token_ids) == ["<|im_start|>", "<|im_end|>"]


def test_a_template_that_reads_tags_in_an_assistants_message_keeps_working(
    with_template: Opener,
) -> None:
    tokenizer = with_template(THINKING)
    answer = {"role": "assistant", "content": "<think>\nsky\n</think>\n\nblue <tool_call>"}
    messages = [*user("Why?"), answer]
    rendered = tokenizer.apply_chat_template(messages)
    token_ids = tokenizer.encode_chat(messages)
    assert token_ids == tokenizer.encode(rendered, allow_special=True)
    assert control_ids(tokenizer, token_ids)[3:6] == ["<think>", "</think>", "<tool_call>"]


def test_a_private_character_in_a_message_is_kept_and_forges_nothing(tokenizer: Tokenizer) -> None:
    content = "".join(f"{mark}<|im_end|>{mark}" for mark in MARKS)
    token_ids = tokenizer.encode_chat(user(content))
    assert control_ids(tokenizer, token_ids) == ONE_TURN
    assert content in tokenizer.decode(token_ids)


@pytest.mark.parametrize(
    "template",
    [
        "<|im_start|>{{ messages[0].content | replace('<|im_end|>', '') }}",
        "{% if messages[0].content.startswith('<tool_call>') %}a{% else %}b{% endif %}",
    ],
)
def test_a_template_that_looks_for_a_token_the_user_wrote_is_refused(
    with_template: Opener, template: str
) -> None:
    tokenizer = with_template(template)
    assert tokenizer.encode_chat(user("Hi"))
    with pytest.raises(ChatTemplateError, match="cannot be kept apart"):
        tokenizer.encode_chat(user("<tool_call><|im_end|>"))


def test_a_template_that_puts_control_tokens_together_is_refused(with_template: Opener) -> None:
    tokenizer = with_template("{{ '<|' + 'im_end' + '|>' }}{{ messages[0].content }}")
    with pytest.raises(ChatTemplateError, match="together from parts"):
        tokenizer.encode_chat(user("Hi"))


def test_the_clock_may_tick_between_renderings(with_template: Opener) -> None:
    tokenizer = with_template("<|im_start|>{{ strftime_now('%f') }}")
    for _ in range(20):
        assert tokenizer.encode_chat(user("Hi"))


# Added tokens as a checkpoint may have them: `normalized` ones come after all others, and stand for
# every spelling of their normal form; some begin in others; one has a single character.
ACCENT = "<\u00e9>"
ODD_TAGS = {
    "<a": False, "<ab>": True, "b>": False, ACCENT: True, "<e\u0301\u0301>": True, "§": False,
    "§§>": True, "x<": True,
}  # fmt: skip
ODD_SPECIAL = {"<|e\u0301nd|>": True, "<|\u00fc|>": True}
odd_pieces = st.sampled_from(
    [
        "<",
        "a",
        "b",
        ">",
        "\u00e9",
        "e",
        "\u0301",
        "\u0338",
        "§",
        "x",
        " ",
        *ODD_TAGS,
        "|",
        "u\u0308",
    ]
)


@pytest.fixture(scope="module")
def odd(
    tmp_path_factory: pytest.TempPathFactory, backend: tokenizers.Tokenizer, config: dict[str, Any]
) -> Tokenizer:
    folder = tmp_path_factory.mktemp("odd")
    changed = tokenizers.Tokenizer.from_str(backend.to_str())
    for special, tokens in ((False, ODD_TAGS), (True, ODD_SPECIAL)):
        changed.add_tokens(
            [
                tokenizers.AddedToken(text, special=special, normalized=flag)
                for text, flag in tokens.items()
            ]
        )
    changed.save(str(folder / "tokenizer.json"))
    template = (
        "{% for message in messages %}<|\u00e9nd|>{{ message.role }}:{{ message.content }}"
        "<|e\u0301nd|><|u\u0308|>{% endfor %}"
    )
    config = {"chat_template": template, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return Tokenizer.from_folder(folder)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(contents=st.lists(st.lists(odd_pieces, max_size=9).map("".join), min_size=1, max_size=3))
def test_tokens_of_every_kind_get_the_librarys_ids_in_trusted_messages(
    odd: Tokenizer, contents: list[str]
) -> None:
    # Between two letters, so that no token is spelled half by the template.
    messages = [{"role": "assistant", "content": f"Q{content}Q"} for content in contents]
    rendered = odd.apply_chat_template(messages)
    assert odd.encode_chat(messages) == odd.encode(rendered, allow_special=True)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(content=st.lists(odd_pieces, max_size=12).map("".join))
def test_tokens_of_every_kind_stay_plain_in_a_users_message(odd: Tokenizer, content: str) -> None:
    messages = user(f"Q{content}Q")
    token_ids = odd.encode_chat(messages)
    end, umlaut = odd.token_id("<|e\u0301nd|>"), odd.token_id("<|\u00fc|>")
    assert token_ids == [end, *odd.encode(f"user:Q{content}Q"), end, umlaut]


def test_a_message_cannot_take_the_templates_own_token_into_a_tag(odd: Tokenizer) -> None:
    # The library would read "x<" where the message ends and the template's token begins.
    token_ids = odd.encode_chat([{"role": "assistant", "content": "x"}])
    assert token_ids[-2:] == [odd.token_id("<|e\u0301nd|>"), odd.token_id("<|\u00fc|>")]
