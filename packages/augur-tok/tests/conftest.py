"""A small byte-level BPE with Qwen's pipeline and control tokens, trained on the spot."""

import json
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from augur_tok import QWEN2, Tokenizer

TRAINING_TEXT = [
    "Why is the sky blue? The sky is blue because the air scatters blue light the most.",
    "def add(left, right):\n    return left + right\n\n\nprint(add(1, 23))\n",
    "Grüße aus der Küche: 世界你好，世界很大。 Привет, мир! 🙂🙂",
    "hello hello hello, ok ok ok; I'm sure it's what they'll say.",
]

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TAGS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]

# The shape of Qwen's templates: a default system message, tools, turns, the generation prompt.
CHAT_TEMPLATE = """\
{%- set first = messages[0] %}
{%- if first.role == 'system' %}
    {%- set system = first.content %}
{%- else %}
    {%- set system = 'You are small.' %}
{%- endif %}
{{- '<|im_start|>system\\n' + system }}
{%- if tools %}
    {{- '\\nCall tools as <tool_call>{...}</tool_call>:' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if not (loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.content is string %}
            {{- message.content }}
        {%- else %}
            {%- for block in message.content %}{{- block.text }}{%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


MOST_SECONDS = 10  # of the processor, so that other work on the machine makes no test fail
MOST_BYTES = 250_000_000  # of address space, which is more than what is used of it


class TooLong(BaseException):
    """No Exception: a rendering turns those into errors of its own."""


@pytest.fixture
def bounded() -> Iterator[None]:
    """The test ends in time, and memory beyond the bound is refused to it."""

    def out_of_time(*_: object) -> None:
        raise TooLong

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, out_of_time)
    most = pages * os.sysconf("SC_PAGE_SIZE") + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGPROF, handler)


@pytest.fixture(scope="session")
def backend() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(QWEN2.split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TRAINING_TEXT, trainer)
    backend.add_tokens(
        [tokenizers.AddedToken(text, special=True, normalized=False) for text in SPECIAL]
        + [tokenizers.AddedToken(text, special=False, normalized=False) for text in TAGS]
    )
    return backend


@pytest.fixture(scope="session")
def config(backend: tokenizers.Tokenizer) -> dict[str, Any]:
    """What tokenizer_config.json holds."""
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": {
            str(token_id): {
                "content": token.content,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": token.special,
            }
            for token_id, token in backend.get_added_tokens_decoder().items()
        },
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": CHAT_TEMPLATE,
    }


@pytest.fixture(scope="session")
def folder(
    tmp_path_factory: pytest.TempPathFactory, backend: tokenizers.Tokenizer, config: dict[str, Any]
) -> Path:
    """A checkpoint folder with tokenizer.json."""
    folder = tmp_path_factory.mktemp("whole")
    write_json(folder / "tokenizer.json", json.loads(backend.to_str()))
    write_json(folder / "tokenizer_config.json", config)
    return folder


@pytest.fixture(scope="session")
def vocab_folder(
    tmp_path_factory: pytest.TempPathFactory, backend: tokenizers.Tokenizer, config: dict[str, Any]
) -> Path:
    """The same checkpoint with vocab.json and merges.txt."""
    folder = tmp_path_factory.mktemp("parts")
    backend.model.save(str(folder))
    write_json(folder / "tokenizer_config.json", config)
    return folder


@pytest.fixture(scope="session")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(folder)


@pytest.fixture
def with_files(tmp_path: Path) -> Callable[..., Path]:
    """Copies a folder with some files replaced: text, bytes, a JSON value, or None for none."""

    def copy(folder: Path, files: dict[str, Any]) -> Path:
        target = tmp_path / "edited"
        shutil.copytree(folder, target)
        for name, content in files.items():
            path = target / name
            path.parent.mkdir(exist_ok=True)
            if content is None:
                path.unlink()
            elif isinstance(content, bytes):
                path.write_bytes(content)
            elif isinstance(content, str):
                path.write_text(content, encoding="utf-8")
            else:
                write_json(path, content)
        return target

    return copy


@pytest.fixture
def with_template(
    folder: Path, config: dict[str, Any], with_files: Callable[..., Path]
) -> Callable[[str], Tokenizer]:
    """The small tokenizer with another chat template."""

    def open_with(template: str) -> Tokenizer:
        edited = {**config, "chat_template": template}
        return Tokenizer.from_folder(with_files(folder, {"tokenizer_config.json": edited}))

    return open_with


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
