"""Jinja as in transformers: templates on a vocabulary of single bytes and one pair."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from augur_tok import Tokenizer
from tokenizer_texts import referee_chat_ids

Pair = tuple[Tokenizer, PreTrainedTokenizerBase]

# A template in the manner of Qwen3's: it reads tags in messages that are added tokens.
THINKING = """\
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'user' and content.startswith('<tool_response>') %}
        {%- set content = content + '\\n' %}
    {%- elif message.role == 'assistant' and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
        {%- set answer = content.split('</think>')[-1].lstrip('\\n') %}
        {%- set content = '<think>\\n' + thought + '\\n</think>\\n\\n' + answer %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""


@pytest.fixture
def with_template(tmp_path: Path) -> Callable[[str], Pair]:
    """Both tokenizers with a template, on a tiny vocabulary and Qwen3's added tokens."""

    def open_both(template: str) -> Pair:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocab = {token: token_id for token_id, token in enumerate([*alphabet, "ab"])}
        special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
        tags = ("<tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
        tokens = [(text, text in special) for text in (*special, *tags)]
        config = {
            "tokenizer_class": "Qwen2Tokenizer",
            "added_tokens_decoder": {
                str(token_id): {"content": text, "special": flag, "normalized": False}
                for token_id, (text, flag) in enumerate(tokens, start=len(vocab))
            },
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "chat_template": template,
        }
        (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n", encoding="utf-8")
        (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        return Tokenizer.from_folder(tmp_path), AutoTokenizer.from_pretrained(tmp_path)

    return open_both


@pytest.mark.parametrize("options", [{}, {"enable_thinking": False}], ids=["thinking", "not"])
def test_a_template_that_reads_tags_in_messages_gives_transformers_ids(
    with_template: Callable[[str], Pair], options: dict[str, Any]
) -> None:
    tokenizer, referee = with_template(THINKING)
    messages = [
        {"role": "system", "content": "Think in <think> and </think>."},
        {"role": "user", "content": "Why is the sky blue?"},
        {"role": "assistant", "content": "<think>\nAir.\n</think>\n\nScattering. <tool_call>"},
    ]
    options["add_generation_prompt"] = True
    expected = referee.apply_chat_template(messages, tokenize=False, **options)
    token_ids = tokenizer.encode_chat(messages, **options)
    assert tokenizer.apply_chat_template(messages, **options) == expected
    assert token_ids == referee_chat_ids(referee, messages, **options)
    assert tokenizer.token_id("</think>") in token_ids


@pytest.mark.parametrize(
    "template",
    [
        "a\n  {% if true %}\n  b\n  {% endif %}\n{# note #}\nc\n",
        "{{ eos_token }}{{ pad_token }}{{ bos_token }}{{ unk_token }}{{ bos_token is defined }}",
        "{{ tools }}{{ documents }}{{ tools is defined }}{{ documents is defined }}",
        "{% for n in range(9) %}{% if n == 1 %}{% continue %}{% endif %}{% if n == 4 %}{% break %}"
        "{% endif %}{{ n }}{% endfor %}",
        "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
        "{{ messages | tojson }}{{ messages | tojson(indent=2) }}",
        "{{ messages[0] | tojson(separators=(',', ':'), sort_keys=true, ensure_ascii=true) }}",
        "{% set n = namespace(i=0) %}{% for m in messages %}{% set n.i = n.i + 1 %}{% endfor %}"
        "{{ n.i }}{{ dict(a=1) }}",
        "{{ strftime_now('%Y') }}{{ messages[0].content | trim | upper }}",
        "{% macro turn(m) %}<|im_start|>{{ m.role }}{% endmacro %}{{ turn(messages[0]) }}",
        "{% for k, v in messages[0]|items %}{{ k ~ '=' ~ (v|tojson|safe) ~ loop.last }}{% endfor %}"
        "{% for k in messages[0] if k not in ['role'] %}{{ k }}{% endfor %}",
        "{{ messages[::-1] | list | length }}{{ messages[0].content[1:-1] }}{{ [1, 2, 3][-2:] }}"
        "{{ 'ab'.replace('a', 'x').split('x') }}{{ (messages|last)['role'] }}{{ messages|first }}",
        "{% for n in range(3) %}{{ loop.previtem is defined }}{{ loop.index0 }}{{ loop.length }}"
        "{{ loop.cycle('a', 'b') }}{{ loop.nextitem }}{% endfor %}{{ 0 < 1 <= 2 != 3 }}",
        "{{ messages is iterable and messages is sequence and messages is not string }}"
        "{{ messages[0] is mapping }}{{ none is none }}{{ true is true }}{{ 3 is odd }}"
        "{{ x|d(1) }}",
        "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(', ') }}"
        "{{ messages|rejectattr('role', 'in', ['user'])|list }}{{ ['1', 2]|map('int')|list }}",
        "{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 3 }}{{ 7 / 2 }}{{ -3|abs }}{{ '%s-%d' % ('a', 3) }}"
        "{{ '{}{b}'.format(1, b=[none]) }}{{ 'a' * 3 }}{{ [1] + [2] }}{{ (1,) }}"
        "{{ {'a': {1: 'b'}} }}",
        "{% set x %} a {{ messages[0].role | title }}{% endset %}{{ x | trim | capitalize }}"
        "{{ [messages, x, 1.5, none, true, 'it\\'s\\n'] }}{% with y = 2 %}{{ y }}{% endwith %}",
    ],
)
def test_jinja_behaves_as_in_transformers(
    with_template: Callable[[str], Pair], template: str
) -> None:
    tokenizer, referee = with_template(template)
    messages = [{"role": "user", "content": " <größer> & 'so' \n"}]
    expected = referee.apply_chat_template(messages, tokenize=False)
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=False) == expected
    ids = tokenizer.encode_chat(messages, add_generation_prompt=False)
    assert ids == referee_chat_ids(referee, messages)
