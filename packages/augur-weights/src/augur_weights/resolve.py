"""From what a person names to a checkpoint folder."""

from pathlib import Path

from augur_weights.embedded import DEFAULT_MODEL, embedded_checkpoint
from augur_weights.errors import SourceError
from augur_weights.gguf_import import import_gguf
from augur_weights.layout import require_checkpoint
from augur_weights.progress import Progress


def resolve(
    source: str | Path | None = None,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
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
        source: what to resolve.
        cache_dir: where imported and fetched models are kept. If ``None``: the user's cache for
            what is imported, huggingface_hub's (HF_HOME, HF_HUB_CACHE) for what is fetched.
        progress: told how far an import has come. Downloads show huggingface_hub's own progress
            bars on stderr (HF_HUB_DISABLE_PROGRESS_BARS turns them off).

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
        require_checkpoint(path)
        return path
    if path.suffix.lower() == ".gguf":
        return _imported(path, cache_dir, progress)
    if path.exists():
        raise SourceError(
            f"{path} is a file, expected a checkpoint folder, a .gguf file or a Hub model. If it "
            "belongs to a checkpoint, give its folder."
        )
    if isinstance(source, Path) or _can_only_be_a_path(source):
        raise SourceError(
            f"{path}: there is no such folder. Check the path, from {Path.cwd()}. A Hub model is "
            "written org/name, with an optional @revision."
        )
    return _from_hub(source, cache_dir)


def _expanded(source: str | Path) -> Path:
    if not str(source):
        raise SourceError(
            "The model's name is empty. Expected a folder, a .gguf file, or a Hub model (org/name)."
        )
    try:
        return Path(source).expanduser()
    except RuntimeError:  # a ~user that the system does not know
        return Path(source)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise SourceError(f"{path}: cannot be looked at: {error.strerror}.") from None


def _can_only_be_a_path(source: str) -> bool:
    name, _, _ = source.partition("@")
    return source.startswith((".", "/", "~")) or "\\" in source or name.count("/") > 1


def _imported(path: Path, cache_dir: Path | None, progress: Progress | None) -> Path:
    if not path.is_file():
        raise SourceError(f"{path}: there is no such file. Check the path, from {Path.cwd()}.")
    return import_gguf(path, cache_dir=cache_dir, progress=progress)


def _from_hub(source: str, cache_dir: Path | None) -> Path:
    repo_id, at, revision = source.partition("@")
    if at and not revision:
        raise SourceError(
            f'"{source}": there is no revision after the @. Expected a branch, a tag or a commit, '
            "or the name without @."
        )
    # Here, because huggingface_hub takes half a second to import and few runs need it.
    from augur_weights.hub import hub_checkpoint  # noqa: PLC0415

    return hub_checkpoint(repo_id, revision or None, cache_dir=cache_dir)
