"""An MLflow server or store as a tracker.

MLflow only appends: data sent twice appear twice, and nothing can be removed. So before anything is sent, and after a
failure, when the last request may or may not have arrived, MLflow is asked what it holds. A value is identified by its
metric, its step and its position among the values of that step (several environments can share one), but not by its
time, because a resumed run measures again.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ..errors import TrackerError
from . import mlflow_stores
from .journal import ENDED, FAILED, STOPPED, SUCCEEDED, Point, Status, TrackedRun
from .trackers import TrackerKind, Unsent

UUID_TAG, MESSAGE_TAG, DESCRIPTION_TAG = "axonrl.uuid", "axonrl.message", "mlflow.note.content"
GROUP_TAG: Final = "axonrl.group"
LOG: Final = "log.txt"
STATUSES: Final = {SUCCEEDED: "FINISHED", FAILED: "FAILED", STOPPED: "KILLED"}
"""MLflow's names of final statuses; any other is RUNNING there."""
METRICS_AT_ONCE, PARAMS_AT_ONCE, PARAM_LENGTH, NAME_LENGTH = 1000, 100, 6000, 250
"""MLflow's limits: values in a request, and characters."""
TIMEOUT: Final = "MLFLOW_HTTP_REQUEST_TIMEOUT"
SETTINGS: Final = {
    TIMEOUT: "10",  # seconds for each answer
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a blindly repeated request may append twice
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Defaults of MLflow's environment variables in this process."""
EXTRA: Final = ("mlflow", "sqlalchemy", "alembic")
"""Modules that axonrl's extra installs; stores other than a server and SQLite may need more."""
DATABASES: Final = ("mysql", "mssql", "postgresql")
"""Databases whose tables the first client creates or updates; SQLite's are in a file."""
SECRETS: Final = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD")
IN_QUERY: Final = "(?i:token|password|secret)="
REQUEST: Final = re.compile("API request to .*(failed|successful)")
TROUBLES: Final = (
    ("(?:error code|too many) ([0-9]+)", "answers with error {0}"),
    ("valid JSON", "is not an MLflow server, by its answers"),
    ("timed out|timeout", "does not answer within {seconds} seconds"),
    ("NameResolution|getaddrinfo", "cannot be reached: unknown host"),
    ("refused", "cannot be reached: connection refused"),
    ("SSL|CERTIFICATE", "has an invalid certificate"),
    ("header value", "cannot be asked: MLFLOW_TRACKING_TOKEN begins with a space, or contains a line break"),
    ("", "cannot be reached"),
)
"""Patterns in MLflow's texts about failed requests, and their meaning for users; the first match counts."""


class MLflowError(TrackerError):
    """MLflow could not be reached, or refused a request; the text is for the user."""


class MLflowTracker(TrackerKind):
    """MLflow: metrics, params, status, files and log of a run in an MLflow experiment.

    Servers with users need ``MLFLOW_TRACKING_TOKEN``, or ``MLFLOW_TRACKING_USERNAME`` and
    ``MLFLOW_TRACKING_PASSWORD``.

    Args:
        uri: a server (``https://...``) or a store (``sqlite:///runs.db``); None for ``MLFLOW_TRACKING_URI``, else
            MLflow's default, a store in the current folder.
        experiment: MLflow's experiment of the run, created if missing.
    """

    def __init__(self, uri: str | None = None, experiment: str = "axonrl") -> None:
        if uri is not None and not (isinstance(uri, str) and uri):
            raise ValueError(f"uri must be an address, such as http://localhost:5000, got {uri!r}")
        if not isinstance(experiment, str) or not experiment:
            raise ValueError(f"experiment must be a name, got {experiment!r}")
        if uri and _has_secret(uri):
            raise ValueError("uri must not contain a password: set MLFLOW_TRACKING_URI to the whole address instead")
        self._uri, self._experiment = uri, experiment
        self._client: Any = None
        self._remote: _Remote | None = None
        self._unsent = Unsent()

    def push(self, run: TrackedRun) -> None:
        """Bring MLflow up to date with the run.

        Raises:
            MLflowError: pushing failed.
        """
        remote, self._remote = self._remote, None  # until everything has succeeded
        try:
            if self._client is None:
                self.preparing = _gets_tables(_address(self._uri))
                self._client = _connect(self._uri)
            self.preparing = False
            remote = remote or self._find(run)
            latest = run.statuses[-1] if run.statuses else None  # before the points: the final status follows the last
            self._push_status(remote, latest if latest and latest.status not in ENDED else None)
            self._push_params(remote, run.inputs)
            self._push_points(remote, run.points)
            self._push_outputs(remote, run)
            self._push_files(remote, run)
            self._push_status(remote, latest)  # the final status comes last
        except Exception as error:  # from many libraries, as MLflow's stores range from files to clouds
            raise MLflowError(_explain(error, self._client, self._experiment)) from None
        finally:
            self.preparing = False
        self._remote = remote

    def _find(self, run: TrackedRun) -> _Remote:
        """The run in MLflow; run and experiment are created if missing."""
        experiment = self._client.get_experiment_by_name(self._experiment)
        number = experiment.experiment_id if experiment else self._client.create_experiment(self._experiment)
        for found in self._client.search_runs([number], f"tags.`{UUID_TAG}` = '{run.uuid}'", max_results=1):
            return _Remote(found)
        began = _milliseconds(run.statuses[0].time) if run.statuses else None
        tags = {UUID_TAG: run.uuid, DESCRIPTION_TAG: run.description}
        if run.group is not None:
            tags[GROUP_TAG] = run.group.label
        return _Remote(self._client.create_run(number, began, tags, run.name))

    def _push_status(self, remote: _Remote, status: Status | None) -> None:
        if status is None:
            return
        if remote.tags.get(MESSAGE_TAG, "") != status.message:
            self._client.set_tag(remote.id, MESSAGE_TAG, status.message)
            remote.tags[MESSAGE_TAG] = status.message
        name = STATUSES.get(status.status, "RUNNING")
        state = (name, _milliseconds(status.time) if status.status in ENDED else None)
        if state == remote.state or name == remote.state[0] == "RUNNING":
            return
        if name == "RUNNING":
            self._client.update_run(remote.id, name)
        else:
            self._client.set_terminated(remote.id, *state)
        remote.state = state

    def _push_params(self, remote: _Remote, inputs: Mapping[str, Any]) -> None:
        """Log the params that MLflow lacks; existing ones cannot change."""
        from mlflow.entities import Param

        texts = {_name(name): value if isinstance(value, str) else json.dumps(value) for name, value in inputs.items()}
        params = [Param(name, text[:PARAM_LENGTH]) for name, text in texts.items() if name not in remote.params]
        for at in range(0, len(params), PARAMS_AT_ONCE):
            self._client.log_batch(remote.id, params=params[at : at + PARAMS_AT_ONCE])
        remote.params.update(texts)

    def _push_points(self, remote: _Remote, points: list[Point]) -> None:
        if remote.points is not points:  # it is another list if points were removed
            remote.points, remote.at, remote.metrics = points, 0, {}
        while new := points[remote.at : remote.at + METRICS_AT_ONCE]:
            for name in {_name(point.name) for point in new} - remote.metrics.keys():
                history = self._client.get_metric_history(remote.id, name)
                remote.metrics[name] = _Held(Counter(value.step for value in history))
            self._log(remote, [metric for point in new if (metric := remote.metrics[_name(point.name)].missing(point))])
            remote.at += len(new)

    def _push_outputs(self, remote: _Remote, run: TrackedRun) -> None:
        """Log outputs as metrics at the run's last timestep; a later evaluation at the same timestep is added."""
        outputs = run.outputs
        if outputs == remote.outputs or not run.statuses:
            return
        at, step = _milliseconds(run.statuses[-1].time), int(outputs.get("timesteps", 0))
        values = {_name(name): float(value) for name, value in outputs.items()}
        self._log(
            remote, [(name, value, at, step) for name, value in values.items() if remote.values.get(name) != value]
        )
        remote.outputs, remote.values = outputs, values

    def _log(self, remote: _Remote, metrics: Iterable[tuple[str, float, int, int]]) -> None:
        from mlflow.entities import Metric

        if batch := [Metric(*metric) for metric in metrics]:
            self._client.log_batch(remote.id, metrics=batch)

    def _push_files(self, remote: _Remote, run: TrackedRun) -> None:
        """Upload changed files of the run folder, and the log."""
        for source in self._unsent.files(run.folder):
            folder = source.relative_to(run.folder).parent.as_posix()
            self._client.log_artifact(remote.id, str(source), None if folder == "." else folder)
        for lines in self._unsent.log(run):
            text = "".join(f"{_utc(line.time)} {line.text}\n" for line in lines)
            self._client.log_text(remote.id, text, LOG)


class _Remote:
    """A run in MLflow, as far as known; made from MLflow's ``Run``."""

    def __init__(self, found: Any) -> None:
        self.id = str(found.info.run_id)
        self.state: tuple[str, int | None] = (found.info.status, found.info.end_time)
        self.tags = dict(found.data.tags)
        self.params = set(found.data.params)
        self.values = dict(found.data.metrics)
        """The latest value of each metric."""
        self.outputs: Mapping[str, Any] = {}
        self.points: list[Point] = []
        self.at = 0
        """The number of points that it holds."""
        self.metrics: dict[str, _Held] = {}


@dataclasses.dataclass
class _Held:
    """Values of a metric in MLflow not yet compared with the run's points: their number at each step."""

    steps: Counter[int]
    last: tuple[int, int] = (-1, -1)

    def missing(self, point: Point) -> tuple[str, float, int, int] | None:
        """The next point of the run, as name, value, time in ms and step, if MLflow lacks it.

        MLflow merges equal values of the same step and millisecond, such as the lengths of episodes that end together;
        so the second value gets the next millisecond.
        """
        step, at = self.last
        now = max(_milliseconds(point.time), at + 1) if step == point.step else _milliseconds(point.time)
        self.last = (point.step, now)
        if self.steps[point.step]:
            self.steps[point.step] -= 1
            return None
        return _name(point.name), point.value, now, point.step


def _connect(uri: str | None) -> Any:
    """An ``mlflow.MlflowClient`` without output and with short timeouts."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    uri = _address(uri)
    path = mlflow_stores.path_of(uri)
    return MlflowClient(uri) if path is None else mlflow_stores.open_store(path, uri, MlflowClient)


def _address(uri: str | None) -> str:
    """The address of the store; MLflow's own default if none is given."""
    if uri:
        return uri
    from mlflow import get_tracking_uri

    return str(get_tracking_uri())


def _gets_tables(uri: str) -> bool:
    """Does connecting to the store create its tables?"""
    path = mlflow_stores.path_of(uri)
    return uri.startswith(DATABASES) if path is None else mlflow_stores.is_empty(path)


def _explain(error: Exception, client: Any, experiment: str) -> str:
    """Explain an error in one line without secrets."""
    if isinstance(error, ModuleNotFoundError):
        ours = '; pip install "axonrl[mlflow]" installs it' if error.name in EXTRA else ""
        return f"MLflow needs the module {error.name!r}, which is not installed{ours}"
    address = f"MLflow at {client.tracking_uri}" if client is not None else "MLflow"
    status = error.get_http_status_code() if hasattr(error, "get_http_status_code") else None
    text = " ".join(str(error).split())
    if status == 401:
        what = " requires a login: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    elif status == 403:
        what = f" denies access to the experiment {experiment!r}"
    elif REQUEST.search(text):
        found = ((re.search(pattern, text), meaning) for pattern, meaning in TROUBLES)
        match, meaning = next((match, meaning) for match, meaning in found if match)
        what = " " + meaning.format(*match.groups(), seconds=os.environ[TIMEOUT])
    else:
        what = f": {text}"
    return _without_secrets(address + what)


def _without_secrets(text: str) -> str:
    for secret in filter(None, (os.environ.get(name, "").strip() for name in SECRETS)):
        text = text.replace(secret, "***")
    return re.sub(f"({IN_QUERY})[^&\\s]+", r"\1***", re.sub(r"//[^/@\s]*@", "//***@", text))


def _has_secret(uri: str) -> bool:
    parts = urlsplit(uri)
    return bool(parts.password or re.search(IN_QUERY, parts.query))


def _name(name: str) -> str:
    """The name in a form that MLflow accepts: a path."""
    name = re.sub(r"[^\w.\- /]", "_", name)
    parts = name.split("/")
    return (name if all(part.strip(".") for part in parts) else name.replace("/", "_"))[:NAME_LENGTH]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _utc(seconds: float) -> str:
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
