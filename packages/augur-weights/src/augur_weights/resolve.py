"""From what a person names to a checkpoint folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from augur_weights.embedded import DEFAULT_MODEL, embedded_checkpoint
from augur_weights.errors import SourceError
from augur_weights.gguf_import import import_gguf, read_gguf_config
from augur_weights.layout import CONFIG_NAME, READER, require_config, require_weights
from augur_weights.progress import Progress


def resolve(
    source: str | Path | None = None,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    check_config: Callable[[dict[str, Any]], object] | None = None,
) -> Path:
    """Turn a name into a checkpoint folder, fetching or importing what it stands for.

    In this order, ``source`` is

    1. ``None`` or ``DEFAULT_MODEL``: the embedded default model, imported on first use;
    2. an existing folder: itself. A folder wins over a Hub model of the same name, as it does in
       transformers;
    3. a path that ends in ``.gguf``: that file, imported on first use;
    4. a Hub model, ``org/name`` or ``org/name@revision``, fetched on first use. A ``Path`` is never
       a Hub model, nor is a string that can only be a path: one that starts with ``.``, ``/`` or
       ``~``, or has a backslash or more than one slash before the ``@``.

    Args:
        source: the name.
        cache_dir: where imported and fetched models are kept. If ``None``: the user's cache for
            what is imported, huggingface_hub's (HF_HOME, HF_HUB_CACHE) for what is fetched.
        progress: told how far an import has come. Downloads show huggingface_hub's own progress
            bars on stderr (HF_HUB_DISABLE_PROGRESS_BARS turns them off).
        check_config: given what config.json says, once, before weights are fetched, imported or
            looked for; what it raises is raised. Not called for a GGUF file that was imported
            before, nor for the default model, which is always the same.

    Returns:
        A folder with config.json and weights in safetensors.

    Raises:
        SourceError: the name leads nowhere, or the Hub does not give the model.
        CheckpointError: the folder is not a checkpoint, or its weights are in a refused format.
        GGUFError: the GGUF file cannot be imported.
        EmbeddedModelError: the embedded model's parts are missing or damaged.
    """
    if source is None or source == DEFAULT_MODEL:
        return embedded_checkpoint(cache_dir=cache_dir, progress=progress)
    path = _expanded(source)
    if _is_folder(path):
        require_config(path)
        if check_config is not None:
            check_config(READER.json_object(path / CONFIG_NAME))
        require_weights(path)
        return path
    if _is_gguf(path):
        return import_gguf(path, cache_dir=cache_dir, progress=progress, check_config=check_config)
    # Here, because huggingface_hub takes half a second to import and few runs need it.
    from augur_weights.hub import hub_checkpoint  # noqa: PLC0415

    repo_id, revision = _hub_name(source, path)
    return hub_checkpoint(repo_id, revision, cache_dir=cache_dir, check_config=check_config)


def resolve_config(
    source: str | Path | None = None,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """What a model's ``config.json`` says, without its weights.

    Of a Hub model that file alone is fetched, of a GGUF file the metadata is read, and a folder
    need hold nothing else. The embedded default is imported on first use. Arguments and errors are
    those of ``resolve``.
    """
    if source is None or source == DEFAULT_MODEL:
        folder = embedded_checkpoint(cache_dir=cache_dir, progress=progress)
        return READER.json_object(folder / CONFIG_NAME)
    path = _expanded(source)
    if _is_folder(path):
        require_config(path)
        return READER.json_object(path / CONFIG_NAME)
    if _is_gguf(path):
        return read_gguf_config(path)
    from augur_weights.hub import hub_config  # noqa: PLC0415

    return READER.json_object(hub_config(*_hub_name(source, path), cache_dir=cache_dir))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise SourceError(f"{path}: cannot be looked at: {error.strerror}.") from None


def _expanded(source: str | Path) -> Path:
    if not isinstance(source, str | Path):
        raise SourceError(f"The model is {source!r}, expected its name or a path.")
    if not str(source):
        raise SourceError(
            "The model's name is empty. Expected a folder, a .gguf file, or a Hub model (org/name)."
        )
    try:
        return Path(source).expanduser()
    except RuntimeError:  # a ~user that the system does not know
        return Path(source)


def _is_gguf(path: Path) -> bool:
    if path.suffix.lower() != ".gguf":
        return False
    if not path.exists():
        raise SourceError(f"{path}: there is no such file. Check the path, from {Path.cwd()}.")
    return True


def _hub_name(source: str | Path, path: Path) -> tuple[str, str | None]:
    """Repository and revision of a name that is no folder and no GGUF file."""
    if path.exists():
        raise SourceError(
            f"{path} is a file, expected a checkpoint folder, a .gguf file or a Hub model. If it "
            "belongs to a checkpoint, give its folder."
        )
    name, at, revision = str(source).partition("@")
    only_a_path = name.startswith((".", "/", "~")) or "\\" in name + revision or name.count("/") > 1
    if isinstance(source, Path) or only_a_path:
        raise SourceError(
            f"{path}: there is no such folder. Check the path, from {Path.cwd()}. A Hub model is "
            "written org/name, with an optional @revision."
        )
    if at and not revision:
        raise SourceError(
            f'"{source}": there is no revision after the @. Expected a branch, a tag or a commit, '
            "or the name without @."
        )
    return name, revision or None
