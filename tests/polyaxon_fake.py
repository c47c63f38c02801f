"""What a Polyaxon server answers a tracker, in this process; its answers were recorded from the real one.

``tests/experiments/test_tracking_server.py`` runs the same requests on a real server.
"""

from __future__ import annotations

import email
import json
import re
from http.client import responses
from typing import Any

_RUN = re.compile(
    r"/(?:api/v1|streams/v1/polyaxon)/default/(?P<project>[\w-]+)/runs/(?P<uuid>[0-9a-f]{32})(?P<rest>.*)"
)


class FakePolyaxon:
    """Projects, and runs with their data, statuses, lineage and files."""

    def __init__(self) -> None:
        self.projects: set[str] = set()
        self.runs: dict[str, FakeRun] = {}

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        """The answer to a request, as HTTP has it."""
        if match := _RUN.fullmatch(path):
            status, value = self._about_run(method, match["project"], match["uuid"], match["rest"], headers, body)
        elif path == "/api/v1/default/projects/create":
            self.projects.add(json.loads(body)["name"])
            status, value = 201, json.loads(body)
        elif path.endswith("/runs/sync"):
            status, value = self._sync(path.split("/")[-3], json.loads(body))
        else:
            status, value = (200, {}) if path.rpartition("/")[2] in self.projects else (404, {"detail": "No Project"})
        content = b"" if value is None else json.dumps(value).encode()
        head = f"HTTP/1.0 {status} {responses[status]}\r\nContent-Length: {len(content)}\r\n"
        return f"{head}Content-Type: application/json\r\n\r\n".encode() + content

    def _sync(self, project: str, data: dict[str, Any]) -> tuple[int, Any]:
        if data["uuid"] in self.runs:
            return 400, {"detail": f"Run {data['uuid']} already exists"}
        self.runs[data["uuid"]] = FakeRun(project, data)
        return 201, data

    def _about_run(
        self, method: str, project: str, uuid: str, rest: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, Any]:
        run = self.runs.get(uuid)
        if run is None or run.project != project:
            return 404, {"detail": "No Run matches the given query."}
        if rest == "/statuses" and method == "GET":
            return 200, {"uuid": uuid, "status": run.data["status"], "status_conditions": run.statuses}
        if rest == "/statuses":
            run.statuses.append(json.loads(body)["condition"])
            run.data["status"] = run.statuses[-1]["type"]
            return 201, {}
        if rest == "/artifact":
            run.upload(headers["Content-Type"], body)
            return 200, None
        if rest == "/lineage/artifacts":
            run.lineage |= {one["name"]: one for one in json.loads(body)["artifacts"]}
            return 201, None
        if method == "PATCH":
            run.data |= {name: value for name, value in json.loads(body).items() if name != "merge"}
        return 200, run.data | {"settings": {"namespace": "polyaxon"}}  # which addresses of files begin with


class FakeRun:
    def __init__(self, project: str, data: dict[str, Any]) -> None:
        self.project, self.data = project, data
        self.statuses: list[dict[str, Any]] = data["status_conditions"]
        self.lineage: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}

    def upload(self, content_type: str, body: bytes) -> None:
        """Keep a file of a multipart form."""
        form = email.message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.walk()}
        name = str(parts["upload_file"].get_filename()).rpartition("/")[2]
        place = json.loads(str(parts["json"].get_payload())).get("path")
        # Not the parser's payload, which takes the last line break of a file for its own.
        boundary = content_type.partition("boundary=")[2].encode()
        content = body.split(b"--" + boundary)[1].partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        self.files[f"{place}/{name}" if place else name] = content
