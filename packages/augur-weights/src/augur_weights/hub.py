"""From a Hub name to a checkpoint folder in huggingface_hub's cache.

All talk with the Hub is huggingface_hub's own, so its cache, progress bars, retries, tokens, mirror
endpoint (HF_ENDPOINT), offline mode (HF_HUB_OFFLINE) and cache folder (HF_HOME, HF_HUB_CACHE) work
as its users know them. What is decided here is which files are fetched.
"""

import glob
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from augur_weights.errors import SourceError
from augur_weights.hub_errors import (
    NOT_A_NAME,
    what_the_cache_lacks,
    what_the_hub_answered,
    why_not_reached,
    why_not_whole,
)
from augur_weights.layout import (
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    INDEX_NAME,
    READER,
    WEIGHTS_NAME,
    read_index,
)

_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"

# What is fetched of every model that has it, besides the weights; patterns.
_SMALL_FILES = (
    CONFIG_NAME,
    GENERATION_CONFIG_NAME,
    INDEX_NAME,
    _TOKENIZER,
    _TOKENIZER_CONFIG,
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
)


def hub_checkpoint(
    repo_id: str,
    revision: str | None = None,
    *,
    cache_dir: Path | None = None,
    check_config: Callable[[dict[str, Any]], object] | None = None,
) -> Path:
    """Fetch what is needed of a Hub model, or find it in the cache.

    Only what is read is fetched: the configs, the chat templates, the tokenizer's files (the older
    ones only where the newer are not there or do not say all), and the safetensors weights, which
    are the files that the index names where there is one, else ``model.safetensors``. Where the Hub
    cannot be reached, what the cache holds is used if it holds that.

    Args:
        repo_id: the repository, ``org/name``.
        revision: a branch, a tag or a commit; the default branch if ``None``.
        cache_dir: the cache folder, huggingface_hub's own if ``None``.
        check_config: given what ``config.json`` says before anything else is fetched.

    Returns:
        The snapshot's folder in the cache.

    Raises:
        SourceError: there is no such repository or revision, it may not be read, it cannot be
            reached and is not in the cache, or it has no safetensors checkpoint.
        CheckpointError: the repository's config or index is malformed.
    """
    commit = None
    if check_config is not None:
        # Alone: of a model that is refused nothing else comes.
        path = hub_config(repo_id, revision, cache_dir=cache_dir)
        check_config(READER.json_object(path))
        commit = path.parent.name
    # These first: they decide what else is read.
    folder = _fetched(_SMALL_FILES, [CONFIG_NAME], repo_id, revision, cache_dir, commit=commit)
    index = folder / INDEX_NAME
    weights = sorted(set(read_index(index).values())) if READER.is_file(index) else [WEIGHTS_NAME]
    older = _older_files(folder)
    if not older and not _missing(folder, weights):
        # Without a network, another look would wait through its retries for nothing.
        return folder
    # The names are patterns here; escaped, each matches only itself.
    names = (*(glob.escape(name) for name in weights), *older)
    return _fetched(names, weights, repo_id, revision, cache_dir, commit=folder.name)


def hub_config(repo_id: str, revision: str | None = None, *, cache_dir: Path | None = None) -> Path:
    """The ``config.json`` of a Hub model, of which nothing else is fetched; see above."""
    return _fetched((CONFIG_NAME,), [CONFIG_NAME], repo_id, revision, cache_dir) / CONFIG_NAME


def _older_files(folder: Path) -> list[str]:
    """What augur-tok, like transformers, reads only where newer files leave something open."""
    older = [] if READER.is_file(folder / _TOKENIZER) else ["vocab.json", "merges.txt"]
    config = READER.json_object_if_present(folder / _TOKENIZER_CONFIG)
    if "added_tokens_decoder" not in config:
        older += ["added_tokens.json", "special_tokens_map.json"]
    return older


def _fetched(
    names: tuple[str, ...],
    needed: list[str],
    repo_id: str,
    revision: str | None,
    cache_dir: Path | None,
    *,
    commit: str | None = None,
) -> Path:
    """The snapshot's folder, with what there is of ``names``, patterns, and all of ``needed``.

    A second step names the ``commit`` that the first one found, so that both see the same state of
    the repository.
    """
    cache = Path(cache_dir or constants.HF_HUB_CACHE)
    model = f'Hub model "{repo_id}" (revision "{revision or constants.DEFAULT_REVISION}")'
    fetch = partial(
        snapshot_download,
        repo_id,
        revision=commit or revision,
        cache_dir=cache,
        allow_patterns=list(names),
    )
    try:
        folder = Path(fetch())
    except HFValidationError:
        raise SourceError(f'"{repo_id}" {NOT_A_NAME}') from None
    except HfHubHTTPError as error:
        raise SourceError(f"{model}: {what_the_hub_answered(repo_id, error)}") from None
    except Exception as error:  # what a broken connection raises is the HTTP library's to name
        if isinstance(error.__cause__, HfHubHTTPError):
            answer = what_the_hub_answered(repo_id, error.__cause__)
            raise SourceError(f"{model}: {answer}") from None
        # huggingface_hub itself turns to the cache where it cannot connect, but not where a
        # connection breaks later or a proxy is in the way.
        try:
            folder = Path(fetch(local_files_only=True))
        except OSError as cache_error:  # LocalEntryNotFoundError, or the cache cannot be read
            lacking = what_the_cache_lacks(cache, cache_error)
            raise SourceError(f"{model}: {why_not_reached(cache, error, lacking)}") from None
        if missing := _missing(folder, needed):
            lacking = f"{', '.join(missing)} missing from the copy in the cache, {folder}"
            raise SourceError(f"{model}: {why_not_reached(cache, error, lacking)}") from None
    if missing := _missing(folder, needed):
        raise SourceError(f"{model}: {why_not_whole(repo_id, folder, missing)}")
    return folder


def _missing(folder: Path, names: list[str]) -> list[str]:
    return [name for name in names if not (folder / name).is_file()]
