"""From a GGUF file of a Qwen2 model to a checkpoint folder like those on the Hub."""

import hashlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from augur_weights.cache import cache_directory
from augur_weights.errors import GGUFError
from augur_weights.gguf_config import check_architecture, generation_config, model_config
from augur_weights.gguf_file import GGUFFile
from augur_weights.gguf_folder import check_space, make_once
from augur_weights.gguf_tensors import match_tensors
from augur_weights.gguf_tokenizer import END_OF_TEXT, tokenizer_config, tokenizer_json
from augur_weights.gguf_vocabulary import read_vocabulary
from augur_weights.progress import Progress

# Beside the tensors, the tokenizer's JSON is the only file of any size.
_OTHER_FILES_BYTES = 32 * 2**20


def import_gguf(
    path: Path,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    check_config: Callable[[dict[str, Any]], object] | None = None,
) -> Path:
    """Import a GGUF file once and return its checkpoint folder.

    The folder holds ``config.json``, ``generation_config.json``, ``tokenizer.json``,
    ``tokenizer_config.json`` and ``model.safetensors``, its tensors dequantized and rounded to
    bfloat16. It lies in the cache under a name made of the file's path, size and time of change; a
    second call with the same file returns it at once.

    Args:
        path: the file.
        cache_dir: the cache, by default ``cache_directory()``.
        progress: told the stage "import" in bytes written.
        check_config: given what ``config.json`` will say, before anything is written; what it
            raises is raised. Not called where the file was imported before.

    Raises:
        GGUFError: the file cannot be read or holds what is not supported, or the ``gguf`` package
            is missing.
        WeightsError: the cache cannot be written.
    """
    path = Path(path).resolve()
    try:
        status = path.stat()
    except OSError as error:
        raise GGUFError(f"{path}: cannot be opened: {error.strerror}") from error
    origin = f"{path}, {status.st_size} bytes, changed at {status.st_mtime_ns} ns"
    key = hashlib.sha256(origin.encode("utf-8")).hexdigest()[:16]
    folder = (cache_dir or cache_directory()) / "imports" / f"{path.stem}-{key}"

    def build(building: Path) -> None:
        if check_config is not None:
            check_config(read_gguf_config(path))
        write_checkpoint(path, building, progress)

    return make_once(folder, origin, build)


def read_gguf_config(path: Path) -> dict[str, Any]:
    """The ``config.json`` that a GGUF file would be imported with; nothing is written.

    Raises:
        GGUFError: as ``import_gguf``.
    """
    require_gguf_package(path)
    from augur_weights.gguf_tied import tie_embeddings  # noqa: PLC0415  (needs gguf)

    with GGUFFile(path) as gguf:
        check_architecture(gguf)
        config = model_config(gguf)
        config["tie_word_embeddings"] = tie_embeddings(gguf, match_tensors(gguf, config))
        return config


def require_gguf_package(what: Path | str) -> None:
    """Say how to get the optional ``gguf`` package if it is not installed.

    Raises:
        GGUFError: it is not installed; the message begins with ``what``.
    """
    if importlib.util.find_spec("gguf") is None:
        raise GGUFError(
            f"{what}: importing a GGUF file needs the gguf package, which is not installed; run: "
            "pip install 'augur-weights[gguf]'"
        )


def write_checkpoint(path: Path, folder: Path, progress: Progress | None = None) -> None:
    """Write the checkpoint that a GGUF file holds into an existing, empty folder.

    Raises:
        GGUFError: as ``import_gguf``.
        WeightsError: the disk has too little space.
        OSError: the folder cannot be written.
    """
    require_gguf_package(path)
    # Here and not above, because both need gguf.
    from augur_weights.gguf_safetensors import bfloat16_bytes, write_safetensors  # noqa: PLC0415
    from augur_weights.gguf_tied import tie_embeddings  # noqa: PLC0415

    with GGUFFile(path) as gguf:
        check_architecture(gguf)
        config = model_config(gguf)
        vocabulary = read_vocabulary(gguf)
        tensors = match_tensors(gguf, config)
        config["tie_word_embeddings"] = tie_embeddings(gguf, tensors)
        check_space(folder, bfloat16_bytes(tensors) + _OTHER_FILES_BYTES)
        end_of_text_id = vocabulary.added_id(END_OF_TEXT)
        for name, content in (
            ("config.json", config),
            ("generation_config.json", generation_config(gguf, end_of_text_id)),
            ("tokenizer.json", tokenizer_json(vocabulary)),
            ("tokenizer_config.json", tokenizer_config(gguf, vocabulary)),
        ):
            _write_json(folder / name, content)
        write_safetensors(folder / "model.safetensors", gguf, tensors, progress)


def _write_json(path: Path, content: dict[str, object]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
