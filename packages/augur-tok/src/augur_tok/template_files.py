"""A checkpoint's chat templates: where they are written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from augur_tok.checkpoint_files import CheckpointFiles
from augur_tok.declared_tokens import CONFIG_FILE
from augur_tok.errors import broken_file

DEFAULT = "default"
FOLDER, ENDING = "additional_chat_templates", ".jinja"

# Qwen's longest has about 10,000.
MAX_CHARACTERS = 50_000


def read_templates(files: CheckpointFiles, config: Mapping[str, Any]) -> dict[str, str]:
    """The chat templates by name; a checkpoint's only one is named "default".

    They are files of their own (chat_template.jinja, additional_chat_templates/NAME.jinja), or
    stand in tokenizer_config.json as one text or as a list of named ones. Files take precedence,
    as in transformers. A base model's folder has none: the result is empty.

    Raises:
        TokenizerError: a file cannot be read, or the configuration's entry is malformed.
    """
    named = files.names_in(FOLDER, ENDING)
    templates = {name[len(FOLDER) + 1 : -len(ENDING)]: files.text(name) for name in named}
    if files.has(f"chat_template{ENDING}"):
        templates[DEFAULT] = files.text(f"chat_template{ENDING}")
    entry = config.get("chat_template")
    templates = templates or _templates_of_config(files.folder / CONFIG_FILE, entry)
    for name, text in templates.items():
        if len(text) > MAX_CHARACTERS:
            found = f"the chat template {name!r} has {len(text):,} characters"
            raise broken_file(files.folder, f"{found}, expected at most {MAX_CHARACTERS:,}")
    return templates


def _templates_of_config(path: Path, entry: object) -> dict[str, str]:
    pairs: list[tuple[object, object]] = [(None, None)]
    if entry is None or isinstance(entry, str):
        pairs = [] if entry is None else [(DEFAULT, entry)]
    elif isinstance(entry, dict):
        pairs = list(entry.items())
    elif isinstance(entry, list) and all(isinstance(item, dict) for item in entry):
        pairs = [(item.get("name"), item.get("template")) for item in entry]
    if not all(isinstance(name, str) and isinstance(text, str) for name, text in pairs):
        raise broken_file(path, "chat_template is neither a text nor a list of named templates")
    return {str(name): str(text) for name, text in pairs}
