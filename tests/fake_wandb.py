"""A server of Weights & Biases with the few routes that its client uses to track a run, and a reader of its files."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

BLOCK: Final = 32768
FULL, LAST = 1, 4


class FakeWandb:
    """Keeps what it is sent of the runs of one project."""

    def __init__(self) -> None:
        self.host = ""
        """Its address, to which files are uploaded."""
        self.runs: dict[str, dict[str, Any]] = {}
        """The latest value of each variable of each run."""
        self.lines: dict[str, list[str]] = {}
        """The rows of each run."""
        self.exit_codes: dict[str, int] = {}
        self.files: dict[str, bytes] = {}

    def rows(self, run: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.get(run, [])]

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The answer to a request."""
        if path == "/graphql":
            return _answered({"data": self._asked(json.loads(body))})
        if method == "PUT":
            self.files[path.removeprefix("/upload/")] = body
        elif path.endswith("/file_stream"):
            self._take(path.split("/")[-2], json.loads(body))
        return _answered({})

    def _asked(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        given = asked.get("variables") or {}
        project = {"id": "1", "name": given.get("project"), "entity": {"id": "1", "name": "me"}}
        if asked["operationName"] == "UpsertBucket":
            run = self.runs.setdefault(given["name"], {})
            run |= {name: value for name, value in given.items() if value is not None}
            return {"upsertBucket": {"bucket": {**self._bucket(given["name"]), "project": project}, "inserted": True}}
        if asked["operationName"] == "RunResumeStatus":
            return {"model": {**project, "bucket": self._bucket(given["name"]) if given["name"] in self.runs else None}}
        if asked["operationName"] == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.host}/upload/{name}"} for name in given["files"]]
            return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}
        return {}

    def _bucket(self, name: str) -> dict[str, Any]:
        lines, run = self.lines.get(name, []), self.runs[name]
        tail = json.dumps(lines[-1:])
        counts = {"historyLineCount": len(lines), "logLineCount": 0, "eventsLineCount": 0}
        told = {"historyTail": tail, "eventsTail": "[]", "summaryMetrics": "{}", "config": run.get("config", "{}")}
        told["wandbConfig"] = '{"t": {}}'  # without it a run was never begun
        return {"id": name, "name": name, "displayName": run.get("displayName"), "tags": [], **counts, **told}

    def _take(self, run: str, sent: Mapping[str, Any]) -> None:
        if rows := sent.get("files", {}).get("wandb-history.jsonl"):
            held = self.lines.setdefault(run, [])
            held[rows["offset"] :] = rows["content"]
        if sent.get("complete"):
            self.exit_codes[run] = sent["exitcode"]


def _answered(value: Any) -> bytes:
    content = json.dumps(value).encode()
    head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(content)}\r\nContent-Type: application/json\r\n\r\n"
    return head.encode() + content


def records(file: Path) -> Iterator[Any]:
    """The records of a file of the offline mode, which W&B's own schema decodes."""
    from wandb.proto import wandb_internal_pb2

    schema: Any = wandb_internal_pb2
    data, at, record = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # the rest of a block
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (FULL, LAST):
            yield schema.Record.FromString(record)
            record = b""
