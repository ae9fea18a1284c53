"""A stand-in for the Hub's HTTP interface, as far as huggingface_hub uses it to fetch a model.

It serves repositories held in memory on 127.0.0.1, keeps a log of the requests, and misbehaves on
demand. Only the standard library is used, so that it can be loaded by path from anywhere:

    with HubStandIn() as hub:
        commit = hub.add("org/name", {"config.json": b"{}", "model.safetensors": weights})
        ...  # HF_ENDPOINT=hub.url

Like the Hub, it answers a request for a safetensors file with a redirect to another server that has
the large files, and refuses with the headers that tell a missing repository from a revision.
"""

import contextlib
import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit

LARGE_SUFFIXES = (".safetensors", ".bin", ".gguf")
PIECE_BYTES = 2**16


@dataclass
class Repository:
    """One model repository: its commits and what its branches and tags point to."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    gated: bool = False


@dataclass(frozen=True)
class Request:
    """A line of the log; ``file`` is the repository file asked for, if it was one."""

    method: str
    path: str
    file: str | None
    range: str | None
    authorization: str | None


class HubStandIn:
    """The server. ``url`` goes into HF_ENDPOINT; ``requests`` is what was asked so far."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[Request] = []
        # The status that every request is answered with instead; None to serve.
        self.broken_status: int | None = None
        # Files whose bytes are not to be had.
        self.broken_files: set[str] = set()
        # Bytes after which the next download of a file is cut off, once per file.
        self.cut_after: dict[str, int] = {}
        # Called with the file's name after each piece of a file that was sent, on the thread that
        # sends; what time it takes slows the download down.
        self.on_piece: Callable[[str], None] | None = None
        self.connections: list[socket.socket] = []
        handler = type("Handler", (_Handler,), {"stand_in": self})
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
        self._threads = [
            threading.Thread(target=server.serve_forever, args=(0.01,)) for server in self._servers
        ]
        self.url, self.large_url = (
            f"http://127.0.0.1:{server.server_port}" for server in self._servers
        )

    def add(
        self,
        repo_id: str,
        files: Mapping[str, bytes],
        *,
        refs: tuple[str, ...] = ("main",),
        token: str | None = None,
        gated: bool = False,
    ) -> str:
        """Add a commit to a repository, let ``refs`` point to it, and return its hash."""
        repository = self.repositories.setdefault(repo_id, Repository())
        names = "".join(f"{name}{hashlib.sha1(data).hexdigest()}" for name, data in files.items())
        commit = hashlib.sha1(names.encode()).hexdigest()
        repository.commits[commit] = dict(files)
        repository.refs |= dict.fromkeys(refs, commit)
        repository.token, repository.gated = token, gated
        return commit

    def downloaded(self) -> list[str]:
        """The files whose bytes were asked for, sorted, each as often as it was asked for."""
        return sorted(r.file for r in self.requests if r.method == "GET" and r.file is not None)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Go away: from here on, connections are refused."""
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()
        # Connections that clients keep open would go on being served.
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    stand_in: HubStandIn
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.stand_in.connections.append(self.connection)

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # a client that was killed says no goodbye
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        large = re.fullmatch(r"/large/([0-9a-f]{64})/(.+)", path)
        small = re.fullmatch(r"/(.+?)/resolve/([0-9a-f]{40})/(.+)", path)
        file = large[2] if large else small[3] if small else None
        # A redirected GET counts once, where the bytes are.
        is_redirect = small is not None and small[3].endswith(LARGE_SUFFIXES)
        logged = None if is_redirect and self.command == "GET" else file
        self.stand_in.requests.append(
            Request(
                self.command,
                path,
                logged,
                self.headers.get("Range"),
                self.headers.get("Authorization"),
            )
        )
        if self.stand_in.broken_status is not None:
            self._refuse(self.stand_in.broken_status)
        elif large:
            self._send_large(large[1], large[2])
        elif small:
            self._send_file(small[1], small[2], small[3])
        elif info := re.fullmatch(r"/api/models/(.+?)/revision/(.+)", path):
            self._send_info(info[1], info[2])
        elif tree := re.fullmatch(r"/api/models/(.+?)/tree/([^/]+)", path):
            self._send_tree(tree[1], tree[2])
        else:
            self._refuse(404)

    def _find(self, repo_id: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """The commit and its files, or None after the refusal was sent."""
        repository = self.stand_in.repositories.get(repo_id)
        given = self.headers.get("Authorization")
        if repository is not None and repository.gated:
            self._refuse(401 if given is None else 403, "GatedRepo")
        elif repository is None or (repository.token and given != f"Bearer {repository.token}"):
            # The Hub does not tell a stranger whether a repository is missing or private.
            self._refuse(401 if given is None else 404, "RepoNotFound")
        else:
            commit = repository.refs.get(revision, revision)
            if commit in repository.commits:
                return commit, repository.commits[commit]
            self._refuse(404, "RevisionNotFound")
        return None

    def _send_info(self, repo_id: str, revision: str) -> None:
        if found := self._find(repo_id, revision):
            commit, files = found
            with_digests = "blobs=" in urlsplit(self.path).query
            siblings = [
                {"rfilename": name} | (_file_metadata(name, data) if with_digests else {})
                for name, data in files.items()
            ]
            self._send_json({"id": repo_id, "sha": commit, "siblings": siblings})

    def _send_tree(self, repo_id: str, revision: str) -> None:
        if not (found := self._find(repo_id, revision)):
            return
        entries = []
        for name, data in found[1].items():
            entry: dict[str, object] = {"type": "file", "path": name, "size": len(data)}
            entry["oid"] = _etag(data, large=False)
            if name.endswith(LARGE_SUFFIXES):
                digest = _etag(data, large=True)
                entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
            entries.append(entry)
        self._send_json(entries)

    def _send_file(self, repo_id: str, revision: str, name: str) -> None:
        if not (found := self._find(repo_id, revision)):
            return
        commit, files = found
        headers = {"X-Repo-Commit": commit}
        if name not in files:
            self._refuse(404, "EntryNotFound", headers)
        elif name.endswith(LARGE_SUFFIXES):
            digest = _etag(files[name], large=True)
            headers["X-Linked-Etag"] = f'"{digest}"'
            headers["X-Linked-Size"] = str(len(files[name]))
            headers["Location"] = f"{self.stand_in.large_url}/large/{digest}/{name}"
            self._send(302, b"", headers)
        else:
            headers["ETag"] = f'"{_etag(files[name], large=False)}"'
            self._send_bytes(name, files[name], headers)

    def _send_large(self, digest: str, name: str) -> None:
        for repository in self.stand_in.repositories.values():
            for files in repository.commits.values():
                if name in files and _etag(files[name], large=True) == digest:
                    self._send_bytes(name, files[name], {"ETag": f'"{digest}"'})
                    return
        self._refuse(404)

    def _send_bytes(self, name: str, data: bytes, headers: dict[str, str]) -> None:
        if self.command == "GET" and name in self.stand_in.broken_files:
            self._refuse(503)
            return
        status, start = 200, 0
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            status, start = 206, int(asked[1])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        cut = self.stand_in.cut_after.pop(name, None) if self.command == "GET" else None
        self._send(status, data[start:], headers, cut)

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(
        self, status: int, code: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        self._send(status, b"", (headers or {}) | ({"X-Error-Code": code} if code else {}))

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET" and self.stand_in.on_piece is None:
            self.wfile.write(body[:cut])
        elif self.command == "GET":
            self._send_in_pieces(body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True

    def _send_in_pieces(self, body: bytes) -> None:
        name = self.path.rpartition("/")[2]
        for start in range(0, len(body), PIECE_BYTES):
            try:
                self.wfile.write(body[start : start + PIECE_BYTES])
            except ConnectionError:  # the client was killed
                self.close_connection = True
                return
            if self.stand_in.on_piece is not None:
                self.stand_in.on_piece(name)


def _file_metadata(name: str, data: bytes) -> dict[str, object]:
    metadata: dict[str, object] = {"size": len(data), "blobId": _etag(data, large=False)}
    if name.endswith(LARGE_SUFFIXES):
        # git has the pointer in the file's place, and the Hub gives that one's id.
        digest = _etag(data, large=True)
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
            digest.encode(),
            len(data),
        )
        metadata["blobId"] = _etag(pointer, large=False)
        metadata["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": len(pointer)}
    return metadata


def _etag(data: bytes, *, large: bool) -> str:
    # As the Hub does: large files are known by their SHA-256, the others by their git blob's SHA-1.
    if large:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
