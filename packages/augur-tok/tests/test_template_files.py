"""Where a checkpoint keeps its chat templates."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augur_tok import ChatTemplateError, Tokenizer, TokenizerError

USER = [{"role": "user", "content": "Hi"}]
TOOLS = [{"name": "f"}]
Copier = Callable[[Path, dict[str, Any]], Path]


def test_a_template_file_counts_before_the_configuration(folder: Path, with_files: Copier) -> None:
    edited = with_files(folder, {"chat_template.jinja": "from the file: ü"})
    assert Tokenizer.from_folder(edited).apply_chat_template(USER) == "from the file: ü"


def test_additional_template_files_go_by_their_names(folder: Path, with_files: Copier) -> None:
    edited = with_files(
        folder,
        {
            "chat_template.jinja": "plain",
            "additional_chat_templates/tool_use.jinja": "with tools",
        },
    )
    tokenizer = Tokenizer.from_folder(edited)
    assert tokenizer.apply_chat_template(USER) == "plain"
    assert tokenizer.apply_chat_template(USER, tools=TOOLS) == "with tools"


def test_the_configuration_may_list_named_templates(
    folder: Path, config: dict[str, Any], with_files: Copier
) -> None:
    listed = [
        {"name": "default", "template": "plain"},
        {"name": "tool_use", "template": "with tools"},
    ]
    edited = with_files(folder, {"tokenizer_config.json": {**config, "chat_template": listed}})
    tokenizer = Tokenizer.from_folder(edited)
    assert tokenizer.apply_chat_template(USER) == "plain"
    assert tokenizer.apply_chat_template(USER, tools=TOOLS) == "with tools"


def test_named_templates_without_a_default_are_listed_in_the_error(
    folder: Path, config: dict[str, Any], with_files: Copier
) -> None:
    listed = [{"name": "rag", "template": "with documents"}]
    edited = with_files(folder, {"tokenizer_config.json": {**config, "chat_template": listed}})
    tokenizer = Tokenizer.from_folder(edited)
    assert tokenizer.has_chat_template
    with pytest.raises(ChatTemplateError, match=r"no default chat template \(it has rag\)"):
        tokenizer.apply_chat_template(USER)


@pytest.mark.parametrize("entry", [5, ["text"], [{"name": "default"}], {"default": None}])
def test_a_malformed_entry_is_refused(
    folder: Path, config: dict[str, Any], with_files: Copier, entry: Any
) -> None:
    edited = with_files(folder, {"tokenizer_config.json": {**config, "chat_template": entry}})
    with pytest.raises(TokenizerError, match=r"tokenizer_config\.json: chat_template"):
        Tokenizer.from_folder(edited)
