"""A Hugging Face Hub with the few routes that huggingface_hub uses to publish and to load repositories."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

import pytest

TOKEN: Final = "hf_of_me"
"""Without it repositories may be read only."""
Answer: TypeAlias = "tuple[int, Mapping[str, str], bytes]"


class FakeHub:
    """Listens on a free port while it is open."""

    def __init__(self) -> None:
        self.repositories: dict[str, list[dict[str, bytes]]] = {}
        """The files of each commit, oldest first, by repository."""
        self.status = 0
        """With which every request is answered; 0 for what it asks for."""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                may_write = self.headers.get("Authorization") == f"Bearer {TOKEN}"
                path = unquote(urlsplit(self.path).path).strip("/")
                status, headers, content = hub.answer(self.command, path, body, may_write)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = answer  # noqa: N815 - the names that it is called by

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False

    @property
    def endpoint(self) -> str:
        """What ``HF_ENDPOINT`` is set to."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def be_the_hub(self, home: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        """Have huggingface_hub use it, with a token: it reads its settings where it is imported."""
        for name in [name for name in os.environ if name.startswith(("HF_", "HUGGING"))]:
            monkeypatch.delenv(name)
        given = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(home), "HF_TOKEN": TOKEN, **settings}
        for name, value in {**given, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}.items():
            monkeypatch.setenv(name, value)
        for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
            monkeypatch.delitem(sys.modules, name)

    def sha(self, repository: str, index: int = -1) -> str:
        """The name of a commit."""
        commits = self.repositories[repository]
        number = range(len(commits))[index]
        return hashlib.sha1(f"{repository} {number}".encode()).hexdigest()

    def answer(self, method: str, path: str, body: bytes, may_write: bool) -> Answer:
        """The answer to a request."""
        if self.status:
            return self.status, {}, b"{}"
        if method == "POST" and not may_write:
            return 401, {}, b'{"error": "Invalid username or password."}'
        if path == "api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            known = name in self.repositories
            self.repositories.setdefault(name, [{}])
            return _json({"url": f"{self.endpoint}/{name}"}, 409 if known else 200)
        if path == "api/validate-yaml":
            return _json({"errors": [], "warnings": []})
        parts = path.removeprefix("api/models/").split("/")
        name, rest = "/".join(parts[:2]), parts[2:]
        if name not in self.repositories:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        return self._write(name, rest, body) if method == "POST" else self._read(name, rest)

    def _write(self, name: str, rest: list[str], body: bytes) -> Answer:
        if rest[0] == "preupload":
            paths = [one["path"] for one in json.loads(body)["files"]]
            return _json({"files": [{"path": one, "uploadMode": "regular", "shouldIgnore": False} for one in paths]})
        files = dict(self.repositories[name][-1])
        for entry in map(json.loads, body.splitlines()):
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
        self.repositories[name].append(files)
        sha = self.sha(name)
        return _json({"success": True, "commitOid": sha, "commitUrl": f"{self.endpoint}/{name}/commit/{sha}"})

    def _read(self, name: str, rest: list[str]) -> Answer:
        kind, revision, *path = rest if len(rest) > 1 else ["revision", "main"]
        commits = {self.sha(name, index): files for index, files in enumerate(self.repositories[name])}
        sha = self.sha(name) if revision == "main" else revision
        if sha not in commits:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        files = commits[sha]
        if kind == "revision":
            return _json({"id": name, "sha": sha, "siblings": [{"rfilename": one} for one in files]})
        if kind == "tree":
            return _json([{"type": "file", "path": one, "size": len(files[one]), "oid": "0"} for one in files])
        content = files["/".join(path)]
        return 200, {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": sha}, content


def _json(value: Any, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()
