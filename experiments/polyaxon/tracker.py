"""A Polyaxon server as a tracker: it mirrors the Polyaxon run in the run folder.

Metrics and logs are files to Polyaxon, and a changed file is sent whole and replaces the previous one. So a push may
fail and be repeated: in the end the server has every point exactly once.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ..tracking.journal import CREATED, ENDED, RESUMING, TrackedRun
from ..tracking.trackers import StopRequestedError, TrackerKind
from . import settings
from .client import PolyaxonError, check_answer, connect, explained, nonsense, owner_and_project, run_client
from .offline import LINEAGE, REASON, ROOT, RUN, OfflineRun, run_path

HEARTBEAT_SECS: Final = 30.0
"""Seconds between heartbeats."""
SENDING: Final = ".sending"
"""Folder for a push's copies of what it sends, beside the Polyaxon run; the next push removes leftovers of a kill."""


class PolyaxonServer(TrackerKind):
    """A Polyaxon server: statuses, inputs, outputs, metrics, log and files of a run.

    A token, if the server wants one, comes from ``POLYAXON_AUTH_TOKEN`` or from ``polyaxon login``.

    Args:
        host: its address; None for ``POLYAXON_HOST``.
        project: ``"OWNER/NAME"``, or ``"NAME"`` for a project of the owner ``default``; created if missing. None for
            ``"axonrl"``. A submitted run always belongs to the project to which it was submitted.
    """

    settings = settings.PolyaxonSettings
    writer = OfflineRun

    def __init__(self, host: str | None = None, project: str | None = None) -> None:
        self._host = host
        self._owner, self._project = owner_and_project(settings.submitted_project() or project)
        self._client: Any = None
        self._sent: dict[str, tuple[int, int]] = {}
        """The files that were sent, with size and modification time."""
        self._lineage: dict[str, Any] = {}
        self._patched: dict[str, Any] = {}
        self._alive_at = -math.inf

    @classmethod
    def disabled_by(cls) -> str:
        """The environment variable that disables all tracking, if it is set."""
        return settings.NO_OP if settings.tracking_is_off() else ""

    @classmethod
    def resolved(cls, given: Mapping[str, Any]) -> dict[str, Any] | None:
        """The server's address and project; None if no server is known."""
        return settings.resolved(given)

    @classmethod
    def run_id(cls) -> str | None:
        """The uuid of the run that Polyaxon started this process for."""
        submitted = settings.submitted_run()
        return submitted and submitted[2]

    def push(self, run: TrackedRun) -> None:
        """Bring the server up to date with the run.

        Raises:
            PolyaxonError: pushing failed.
            StopRequestedError: everything was pushed, and someone has stopped the run on the server.
        """
        if self._client is None:
            self._client = connect(self._host)
        copies = run.folder / ROOT / SENDING
        shutil.rmtree(copies, ignore_errors=True)
        try:
            snapshot = self._snapshot(run, copies)
            with explained(self._client, self._owner, self._project):
                remote = self._push(run.uuid, snapshot)
        finally:
            shutil.rmtree(copies, ignore_errors=True)
        if _is_stopped(remote.status_conditions or []) and not snapshot.ended:
            raise StopRequestedError(f"the run was stopped at {self._client.config.host}")

    def _push(self, uuid: str, snapshot: Snapshot) -> Any:
        """Push everything; returns the run's statuses on the server."""
        client = run_client(self._client, self._owner, self._project, uuid)
        remote = self._find(client, snapshot.data)
        self._push_statuses(uuid, remote, snapshot.statuses[:-1] if snapshot.ended else snapshot.statuses)
        self._push_files(client, snapshot)
        self._push_data(uuid, snapshot)
        self._push_statuses(uuid, remote, snapshot.statuses)  # the final status comes last
        return remote

    def _snapshot(self, run: TrackedRun, folder: Path) -> Snapshot:
        """Copy the data to push, as another thread continues to write the files."""
        from polyaxon.schemas import V1StatusCondition

        source = run_path(run)
        with run.lock:
            if not (source / RUN).exists():
                raise PolyaxonError(f"{self._client.config.host} waits: the Polyaxon run in {run.folder} is incomplete")
            files = {}
            for path in source.rglob("*"):
                name, stat = path.relative_to(source).as_posix(), path.stat()
                state = (stat.st_size, stat.st_mtime_ns)
                if path.is_file() and not path.name.startswith(".") and self._sent.get(name) != state:
                    copy = folder / name
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, copy)
                    files[name] = (copy, state)
            data = json.loads((source / RUN).read_bytes())
            lineage = json.loads((source / LINEAGE).read_bytes()) if (source / LINEAGE).exists() else []
        # Not the statuses of the run, which may be ahead of the files.
        statuses = [V1StatusCondition.from_dict(one) for one in data["status_conditions"]]
        return Snapshot(data, lineage, statuses, files, data["status"] in ENDED)

    def _find(self, client: Any, data: dict[str, Any]) -> Any:
        """The run's statuses on the server; creates run and project if missing."""
        from polyaxon.client import ProjectClient
        from polyaxon.exceptions import ApiException
        from polyaxon.schemas import V1Run

        runs = self._client.runs_v1
        try:
            remote = runs.get_run_statuses(self._owner, self._project, client.run_uuid)
            if remote.uuid != client.run_uuid:
                raise nonsense(self._client.config.host)
            return remote
        except ApiException as error:
            if error.status != 404:
                raise
        try:
            self._client.projects_v1.get_project(self._owner, self._project)
        except ApiException as error:
            if error.status != 404:
                raise
            projects = ProjectClient(
                self._owner, self._project, self._client, is_offline=False, no_op=False, manual_exceptions_handling=True
            )
            with self._refusing(404, "", "can neither find nor create the project {}"):
                projects.create({"name": self._project})
        body = V1Run.from_dict({**data, "owner": self._owner, "project": self._project})
        elsewhere = "refuses the run in the project {}: it exists in another project, or was deleted"
        with self._refusing(400, "already exists", elsewhere):
            runs.sync_run(self._owner, self._project, body)
        return runs.get_run_statuses(self._owner, self._project, client.run_uuid)

    @contextmanager
    def _refusing(self, status: int, said: str, what: str) -> Iterator[None]:
        """Explain an answer with this status and text; ``{}`` stands for the project."""
        from polyaxon.exceptions import ApiException

        try:
            yield
        except ApiException as error:
            if error.status != status or said not in str(error.body):
                raise
            text = what.format(f"{self._owner}/{self._project}")
            raise PolyaxonError(f"{self._client.config.host} {text}", status) from None

    def _push_statuses(self, uuid: str, remote: Any, statuses: Iterable[Any]) -> None:
        """Send the statuses that the server lacks, and add them to ``remote``."""
        known = {_instant(one) for one in remote.status_conditions or [] if one.reason == REASON}
        for status in statuses:
            if status.type != CREATED and _instant(status) not in known:  # the server sets this status itself
                # Forced, as a resumed run had ended before.
                body = {"condition": status, "force": True}
                self._client.runs_v1.create_run_status(self._owner, self._project, uuid, body=body)
                remote.status_conditions = [*(remote.status_conditions or []), status]

    def _push_files(self, client: Any, snapshot: Snapshot) -> None:
        for name, (copy, state) in snapshot.files.items():
            folder = str(Path(name).parent) if "/" in name else ""
            answer = client.upload_artifact(str(copy), path=folder, overwrite=True, show_progress=False)
            check_answer(self._client, self._owner, self._project, answer)
            self._sent[name] = state

    def _push_data(self, uuid: str, snapshot: Snapshot) -> None:
        """Push changed inputs, outputs and lineage, and a heartbeat when due."""
        runs, where = self._client.runs_v1, (self._owner, self._project, uuid)
        lineage = {one["name"]: one for one in snapshot.lineage}
        if changed := [one for name, one in lineage.items() if self._lineage.get(name) != one]:
            runs.create_run_artifacts_lineage(*where, body={"artifacts": changed})
            self._lineage = lineage
        data = {name: snapshot.data.get(name) for name in ("name", "description", "inputs", "outputs")}
        if data != self._patched:
            runs.patch_run(*where, body=data)
            self._patched = data
            self._alive_at = -math.inf
        if (now := time.monotonic()) - self._alive_at > HEARTBEAT_SECS:
            meta = {**(snapshot.data.get("meta_info") or {}), "heartbeat": time.time()}
            runs.patch_run(*where, body={"meta_info": meta, "merge": True})
            self._alive_at = now


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A run's data, lineage, statuses (as Polyaxon's conditions) and changed files (name to copy, size and time)."""

    data: dict[str, Any]
    lineage: list[dict[str, Any]]
    statuses: list[Any]
    files: dict[str, tuple[Path, tuple[int, int]]]
    ended: bool


def _is_stopped(conditions: Iterable[Any]) -> bool:
    """Did someone else stop the run, and has it not been resumed since?"""
    stopped = False
    for one in conditions:
        if one.reason != REASON:
            stopped = one.type in ("stopping", "stopped")
        elif one.type == RESUMING:
            stopped = False
    return stopped


def _instant(condition: Any) -> int:
    """The time of a status in whole milliseconds, the resolution of servers."""
    at: datetime.datetime = condition.last_transition_time
    return int(at.replace(microsecond=0).timestamp()) * 1000 + at.microsecond // 1000
