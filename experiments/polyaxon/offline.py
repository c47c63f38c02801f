"""A Polyaxon run in the run folder, written from the journal, as the client's offline mode keeps it.

It is in ``<run folder>/polyaxon/runs/<uuid>``, Polyaxon's layout of an offline root: metrics in
``events/metric``, the log in ``plxlogs``, files in ``outputs``, and the run's own data and lineage beside them.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Final

from ...run_dir.files import replacing
from ..tracking.journal import ENDED, RUNNING, Point, TrackedRun
from ..tracking.trackers import files_of
from .client import silence
from .metrics import output_key

ROOT: Final = "polyaxon"
RUN, LINEAGE = "run.plx.json", "lineages.plx.json"
"""The client's file names for a run's own data and its lineage."""
REASON: Final = "axonrl"
"""The issuer of a status."""
NAME_LENGTH: Final = 120
"""Maximum number of characters of a metric's name in Polyaxon, which is also a file name."""
KINDS: Final = {".yml": "file", ".json": "env", ".png": "image", ".safetensors": "model", ".mp4": "video"}
"""The kinds of the files in a run folder, in Polyaxon's terms."""


def run_path(run: TrackedRun) -> Path:
    """The folder of the Polyaxon run."""
    return run.folder / ROOT / "runs" / run.uuid


@dataclasses.dataclass
class _Summary:
    """Statistics of a metric's values."""

    count: int = 0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    last: float = math.nan
    last_step: int = 0

    def add(self, point: Point) -> None:
        self.count, self.total = self.count + 1, self.total + point.value
        self.least, self.most = min(self.least, point.value), max(self.most, point.value)
        self.last, self.last_step = point.value, point.step

    def as_lineage(self) -> dict[str, Any]:
        values = {"count": self.count, "mean": self.total / self.count, "min": self.least, "max": self.most}
        metric = {name: value for name, value in (values | {"last": self.last}).items() if math.isfinite(value)}
        return {"is_event": True, "step": {"count": self.count, "max": self.last_step}, "metric": metric}


class OfflineRun:
    """Keeps the Polyaxon run in the run folder. Every process that tracks the run rewrites the files."""

    what: ClassVar[str] = "the Polyaxon run"

    def __init__(self) -> None:
        silence()
        self._path = Path()
        self._cuts = -1
        self._points = self._lines = 0
        self._names: dict[str, str] = {}
        """Metrics' names to Polyaxon's names."""
        self._summaries: dict[str, _Summary] = {}
        """Summaries by Polyaxon's names."""
        self._emptied: set[str] = set()

    def write(self, run: TrackedRun) -> None:
        """Write everything that the files still lack.

        Raises:
            OSError: they cannot be written.
        """
        with run.lock:
            try:
                if self._cuts != run.cuts:
                    self._begin(run)
                self._write_metrics(run.points[self._points :])
                self._points = len(run.points)
                self._write_log(run)
                files = self._keep_files(run.folder)
                self._write_run(run, files)
            except OSError:  # half a line may be written: an incomplete run is not pushed
                self._cuts = -1
                (run_path(run) / RUN).unlink(missing_ok=True)
                raise

    def _begin(self, run: TrackedRun) -> None:
        """Remove the files that will be rewritten. A metric that lost all its points remains, empty."""
        self._path, self._cuts = run_path(run), run.cuts
        self._emptied |= {path.stem for path in (self._path / "events" / "metric").glob("*.plx")}
        for part in ("events", "plxlogs"):
            shutil.rmtree(self._path / part, ignore_errors=True)
        self._path.mkdir(parents=True, exist_ok=True)
        self._points = self._lines = 0
        self._names = {}
        self._summaries = {}

    def _write_metrics(self, points: Iterable[Point]) -> None:
        from traceml.events import LoggedEventListSpec, LoggedEventSpec, V1Event
        from traceml.serialization.base import EventWriter

        events = []
        for point in points:
            name = self._names.get(point.name) or self._name(point.name)
            self._summaries.setdefault(name, _Summary()).add(point)
            event = V1Event.make(step=point.step, timestamp=_utc(point.time), metric=point.value)
            events.append(LoggedEventSpec(name, "metric", event))
        writer = EventWriter(str(self._path), EventWriter.EVENTS_BACKEND)
        writer.write(events)
        writer.close()
        self._emptied -= set(self._summaries)
        for path in (self._path / "events" / "metric" / f"{name}.plx" for name in self._emptied):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(LoggedEventListSpec("", "metric", []).get_csv_header(), encoding="utf-8")

    def _name(self, name: str) -> str:
        """A unique name for a metric that Polyaxon and file systems accept."""
        from polyaxon._utils.fqn_utils import to_fqn_name

        base = unique = to_fqn_name(name)[:NAME_LENGTH] or "metric"
        others = set(self._names.values())
        for number in itertools.count(2):
            if unique not in others:
                break
            unique = f"{base}-{number}"
        self._names[name] = unique
        return unique

    def _write_log(self, run: TrackedRun) -> None:
        from traceml.logging import V1Log
        from traceml.serialization.base import LogWriter

        lines = run.lines[self._lines :]
        self._lines = len(run.lines)
        writer = LogWriter(str(self._path))
        writer.write([V1Log.model_construct(timestamp=_utc(line.time), value=line.text) for line in lines])
        writer.close()

    def _keep_files(self, folder: Path) -> list[tuple[Path, str]]:
        """Copy the run folder's files into ``outputs``; returns their paths there and their kinds.

        Hard links where possible: files of the run folder are replaced, never changed in place.
        """
        kept = []
        for source, (_, changed) in files_of(folder).items():
            name = source.relative_to(folder)
            copy = self._path / "outputs" / name
            kept.append((Path("outputs") / name, KINDS[name.suffix]))
            if not copy.exists() or copy.stat().st_mtime_ns != changed:
                copy.parent.mkdir(parents=True, exist_ok=True)
                with replacing(copy) as temporary:
                    temporary.unlink(missing_ok=True)
                    try:
                        os.link(source, temporary)
                    except OSError:
                        shutil.copy2(source, temporary)
        return kept

    def _write_run(self, run: TrackedRun, files: Iterable[tuple[Path, str]]) -> None:
        from polyaxon.client import RunClient
        from polyaxon.schemas import V1Run, V1RunArtifact

        times = {status.status: _utc(status.time) for status in reversed(run.statuses)}  # the first of each
        ended = _utc(run.statuses[-1].time) if run.status in ENDED else None
        client = RunClient(owner="default", project="axonrl", run_uuid=run.uuid, is_offline=True, no_op=False)
        client._run_data = V1Run(
            uuid=run.uuid,
            name=run.name.replace(".", "-"),  # servers allow no dots in it
            description=run.description,
            tags=None if run.group is None else [run.group.label],
            kind="job",
            runtime="job",
            is_managed=False,
            managed_by="user",
            status=run.status or None,
            status_conditions=conditions(run),
            created_at=times.get("created"),
            started_at=times.get(RUNNING),
            finished_at=ended,
            duration=(ended - times[RUNNING]).total_seconds() if ended and RUNNING in times else None,
            inputs=run.inputs,
            outputs=self._outputs(run),
            meta_info={"has_events": True, "has_metrics": True},
        )
        summaries: dict[str, Any] = {name: {"is_event": True} for name in self._emptied}
        summaries |= {name: summary.as_lineage() for name, summary in self._summaries.items()}
        metrics = [
            V1RunArtifact(name=name, kind="metric", path=f"events/metric/{name}.plx", summary=summary, is_input=False)
            for name, summary in summaries.items()
        ]
        kept = [
            V1RunArtifact(name=path.name, kind=kind, path=path.as_posix(), summary={}, is_input=False)
            for path, kind in files
        ]
        client.log_artifact_lineage([*metrics, *kept])
        # The client writes in place: a concurrent reader, or a reader after a kill, would find half a file.
        written = run.folder / ROOT / ".run.tmp"
        shutil.rmtree(written, ignore_errors=True)  # left by a killed writer
        client.persist_run(str(written))
        for path in sorted(written.iterdir()):  # the lineage, then the run's own data
            path.replace(self._path / path.name)
        written.rmdir()

    def _outputs(self, run: TrackedRun) -> dict[str, Any]:
        """The last value of every metric by Polyaxon's name, and the results; each also under a name for queries.

        If two have the same name for queries, the first one gets it.
        """
        last = {name: summary.last for name, summary in self._summaries.items() if math.isfinite(summary.last)}
        own = {name: last[unique] for name, unique in self._names.items() if unique in last} | run.outputs
        return {output_key(name): value for name, value in reversed(own.items())} | last | run.outputs


def conditions(run: TrackedRun) -> list[Any]:
    """The statuses of a run as Polyaxon's conditions."""
    from polyaxon.schemas import V1StatusCondition

    return [
        V1StatusCondition(
            type=status.status,
            status=True,
            reason=REASON,
            message=status.message or None,
            last_transition_time=_utc(status.time),
            last_update_time=_utc(status.time),
        )
        for status in run.statuses
    ]


def _utc(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
