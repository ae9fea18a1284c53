"""From a GGUF file to a checkpoint folder like those on the Hub."""

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from augur_files import file_state
from augur_weights.cache import cache_directory
from augur_weights.errors import GGUFError
from augur_weights.gguf_config import model_config
from augur_weights.gguf_family import GGUFFamily, family_of
from augur_weights.gguf_file import READER, GGUFFile, TensorInfo
from augur_weights.gguf_folder import check_space, make_once
from augur_weights.gguf_generation import generation_config
from augur_weights.gguf_keys import check_keys
from augur_weights.gguf_tensors import match_tensors
from augur_weights.gguf_tokenizer import tokenizer_config, tokenizer_json
from augur_weights.gguf_vocabulary import read_vocabulary
from augur_weights.layout import CONFIG_NAME, GENERATION_CONFIG_NAME, WEIGHTS_NAME
from augur_weights.progress import Progress

# Of a file that is looked at again: a MB, whatever its size.
_SAMPLED_PIECES, _PIECE_BYTES = 64, 2**14

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
    bfloat16. It lies in the cache under a name made of the file's path. A second call returns it at
    once, unless the file has another size, another time of change of its content or of its inode
    (which nobody can set back), or differs in one of 64 pieces of 16 kB: so a file that was
    replaced or written to is imported anew, and so is, for nothing, one whose rights changed.

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
    state, origin = _origin(path)
    key = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = (cache_dir or cache_directory()) / "imports" / f"{path.stem}-{key}"

    def build(building: Path) -> None:
        write_checkpoint(path, building, progress, check_config=check_config, state=state)

    return make_once(folder, origin, build)


def read_gguf_config(path: Path) -> dict[str, Any]:
    """The ``config.json`` that a file would be imported with; errors as of ``import_gguf``."""
    require_gguf_package(path)
    with GGUFFile(path) as gguf:
        return _understood(gguf)[1]


def require_gguf_package(what: Path | str) -> None:
    """Raise a GGUFError that begins with ``what`` if the ``gguf`` package is not installed."""
    if importlib.util.find_spec("gguf") is None:
        raise GGUFError(
            f"{what}: importing a GGUF file needs the gguf package, which is not installed; run: "
            "pip install 'augur-weights[gguf]'"
        )


def write_checkpoint(
    path: Path,
    folder: Path,
    progress: Progress | None = None,
    *,
    check_config: Callable[[dict[str, Any]], object] | None = None,
    state: tuple[int, ...] | None = None,
) -> None:
    """Write the checkpoint that a GGUF file holds into an existing, empty folder.

    ``state`` is the file's ``augur_files.file_state``, if it has to be that of an earlier look; for
    the rest see ``import_gguf``.

    Raises:
        GGUFError: as ``import_gguf``; or the file was changed meanwhile.
        WeightsError: the disk has too little space.
        OSError: the folder cannot be written.
    """
    require_gguf_package(path)
    # Here and not above, because it needs gguf.
    from augur_weights.gguf_safetensors import bfloat16_bytes, write_safetensors  # noqa: PLC0415

    with GGUFFile(path) as gguf:
        if state not in (None, gguf.state):
            raise GGUFError(f"{path}: was replaced while its import began. Import it again.")
        family, config, tensors = _understood(gguf)
        if check_config is not None:
            check_config(config)
        vocabulary = read_vocabulary(gguf, family)
        check_space(folder, bfloat16_bytes(tensors) + _OTHER_FILES_BYTES)
        for name, content in (
            (CONFIG_NAME, config),
            (GENERATION_CONFIG_NAME, generation_config(gguf, vocabulary, family.end_of_text)),
            ("tokenizer.json", tokenizer_json(vocabulary, family)),
            ("tokenizer_config.json", tokenizer_config(gguf, vocabulary, family)),
        ):
            text = json.dumps(content, indent=2, ensure_ascii=False)
            (folder / name).write_text(text + "\n", encoding="utf-8")
        write_safetensors(folder / WEIGHTS_NAME, gguf, tensors, progress)
        gguf.check_unchanged()


def _origin(path: Path) -> tuple[tuple[int, ...], str]:
    """The state of a file, and in words what an import of it is made from."""
    digest = hashlib.sha256()
    with READER.open(path) as file:
        try:
            state, status = file_state(file.fileno()), os.fstat(file.fileno())
            for piece in range(_SAMPLED_PIECES):
                file.seek(max(0, status.st_size - _PIECE_BYTES) * piece // (_SAMPLED_PIECES - 1))
                digest.update(file.read(_PIECE_BYTES))
        except OSError as error:
            raise GGUFError(f"{path}: cannot be read: {error.strerror}") from error
    return state, (
        f"{path}, {status.st_size} bytes, changed at {status.st_mtime_ns} ns and "
        f"{status.st_ctime_ns} ns, sampled SHA-256 {digest.hexdigest()}"
    )


def _understood(gguf: GGUFFile) -> tuple[GGUFFamily, dict[str, Any], dict[str, TensorInfo]]:
    """The family, the ``config.json`` and the tensors of a model that can be imported."""
    from augur_weights.gguf_tied import tie_embeddings  # noqa: PLC0415  (needs gguf)

    family = family_of(gguf)
    check_keys(gguf, family)
    config = model_config(gguf, family)
    tensors = match_tensors(gguf, family, config)
    config["tie_word_embeddings"] = tie_embeddings(gguf, tensors)
    return family, config, tensors
