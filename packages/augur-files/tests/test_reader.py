"""What has a file's name is read if it is that file, else refused before it does harm."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from augur_files import FileReader, file_state


class OwnError(Exception):
    pass


READER = FileReader(OwnError, max_bytes=1000)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 988097824\n"


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link that leads nowhere": (dangling, r"is a link that leads to no file \(to .*nowhere\)"),
    "a link to itself": (
        lambda path: path.symlink_to(path.name),
        r"is a link that leads to no file \(to a\.json\)",
    ),
    "a pipe": (os.mkfifo, "is a pipe, expected a file"),
    "a folder": (Path.mkdir, "is a folder, expected a file"),
    "a link to an endless device": (lambda p: p.symlink_to("/dev/zero"), "is a device, expected"),
}


def test_nothing_is_told_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to("there")
    assert READER.is_file(tmp_path / "there")
    assert READER.is_file(tmp_path / "link")
    for name in ("not", "there/not", "no\0path"):
        assert not READER.is_file(tmp_path / name)
    with pytest.raises(OwnError, match="not: there is no such file"):
        READER.text(tmp_path / "not")


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_file_is_neither_passed_over_nor_waited_for(tmp_path: Path, kind: str) -> None:
    put, reason = STRANGE[kind]
    path = tmp_path / "a.json"
    put(path)
    readers = (READER.is_file, READER.json_object_if_present, READER.state)
    for read in (*readers, READER.open, READER.text):
        with pytest.raises(OwnError, match=rf"a\.json: {reason}"):
            read(path)
    with pytest.raises(OwnError, match=rf"a\.json: {reason}"):
        READER.files_in(tmp_path, ".json")


def test_the_state_of_a_file_is_told_and_of_nothing_is_none(tmp_path: Path) -> None:
    assert READER.state(tmp_path / "not") is None
    (tmp_path / "there").touch()
    assert READER.state(tmp_path / "there") == file_state(tmp_path / "there")


def test_a_folders_files_are_listed_by_their_ending(tmp_path: Path) -> None:
    for name in ("b.jinja", "a.jinja", "c.txt"):
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "z.txt")  # what is not asked for is not looked at
    assert READER.files_in(tmp_path, ".jinja") == [tmp_path / "a.jinja", tmp_path / "b.jinja"]
    assert READER.files_in(tmp_path / "not", ".jinja") == []
    with pytest.raises(OwnError, match="is a file, expected a folder"):
        READER.files_in(tmp_path / "c.txt", ".jinja")


def test_what_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    with pytest.raises(OwnError, match="x: cannot be read: File name too long"):
        READER.is_file(tmp_path / ("x" * 1000))


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's /proc")
def test_a_file_of_which_no_byte_can_be_read_is_named() -> None:
    with pytest.raises(OwnError, match="mem: cannot be read: Input/output error"):
        READER.text(Path("/proc/self/mem"))


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), ("é\u2028猫".encode(), "é\u2028猫"), (b"a\r\nb\rc\n", "a\nb\nc\n")],
)
def test_a_text_is_utf8_and_its_line_ends_are_one(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert READER.text(tmp_path / "a.txt") == text


def test_the_locale_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é".encode())
    program = (
        "import sys, pathlib, augur_files;"
        "reader = augur_files.FileReader(ValueError, 9);"
        "sys.exit(reader.text(pathlib.Path(sys.argv[1])) != '\\xe9')"
    )
    strict = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    subprocess.run(
        [*strict, "-c", program, tmp_path / "a.txt"],
        check=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x" * 1001, "has 1,001 bytes, expected at most 1,000"),
        (b"ab\xff", r"is not UTF-8 text \(byte 2"),
        ("é".encode("utf-16"), "is not UTF-8 text"),
        ("é".encode("utf-8-sig"), "begins with a byte order mark"),
        (POINTER, rf"is a Git LFS pointer of {len(POINTER)} bytes .*988097824 bytes.*git lfs pull"),
        (POINTER[:60], r"is a Git LFS pointer .*of a size it does not say"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_a_text_that_is_none_is_named(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(OwnError, match=rf"a\.txt: {reason}"):
        READER.text(tmp_path / "a.txt")
    with pytest.raises(OwnError, match=rf"a\.txt: {reason}"):
        READER.json_object(tmp_path / "a.txt")


def test_a_json_object_is_read_from_a_file_or_from_its_text(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert READER.json_object_if_present(path) == {}
    path.write_bytes(b'{"a": [1, "\xc3\xa9"]}')
    expected = {"a": [1, "é"]}
    assert READER.json_object(path) == expected
    assert READER.json_object_if_present(path) == expected
    assert READER.json_object(path, '{"b": 1}') == {"b": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty, expected JSON"),
        ("{", "is not JSON"),
        ("[1]", "holds a JSON list, expected an object"),
        ("null", "holds a JSON NoneType"),
        ('{"chat_template": "a", "chat_template": "b"}', 'has the key "chat_template" twice'),
        ('{"model_max_length": NaN}', "holds NaN"),
    ],
)
def test_what_is_no_json_object_is_named(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    for read in (READER.json_object, lambda path: READER.json_object(path, text)):
        with pytest.raises(OwnError, match=rf"a\.json: {reason}.*Fetch the file again"):
            read(tmp_path / "a.json")


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot as huggingface_hub lays it out: links into the repository's blobs."""
    repository = tmp_path / "models--org--name"
    snapshot = repository / "snapshots" / "0123"
    (snapshot / "templates").mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / "0").write_bytes(b"{}")
    (snapshot / "a.json").symlink_to("../../blobs/0")
    (snapshot / "templates" / "b.jinja").symlink_to("../../../blobs/0")
    return snapshot


def test_a_snapshots_own_links_are_followed(snapshot: Path, tmp_path: Path) -> None:
    assert READER.text(snapshot / "a.json") == "{}"
    assert len(READER.files_in(snapshot / "templates", ".jinja")) == 1
    # Its blobs moved to another disk, and the snapshot reached by a link.
    blobs = snapshot.parent.parent / "blobs"
    blobs.rename(tmp_path / "disk")
    blobs.symlink_to(tmp_path / "disk")
    (tmp_path / "link").symlink_to(snapshot)
    assert READER.text(tmp_path / "link" / "a.json") == "{}"


@pytest.mark.parametrize("name", ["a.json", "templates/b.jinja"])
@pytest.mark.parametrize("target", ["outside.json", "nothing"])
def test_a_link_out_of_a_snapshot_is_refused(
    snapshot: Path, tmp_path: Path, name: str, target: str
) -> None:
    (tmp_path / "outside.json").write_bytes(b"{}")
    (snapshot / name).unlink()
    (snapshot / name).symlink_to(tmp_path / target)
    with pytest.raises(OwnError, match=rf"{name}: is a link to .*{target}.*Refused: delete"):
        READER.text(snapshot / name)


def test_a_folder_that_links_out_of_a_snapshot_is_refused(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (snapshot / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OwnError, match=r"more: is a link to .*elsewhere"):
        READER.files_in(snapshot / "more", ".jinja")


def test_links_in_a_folder_of_ones_own_are_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_bytes(b"{}")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.json").symlink_to(tmp_path / "outside.json")
    assert READER.json_object(tmp_path / "mine" / "a.json") == {}
