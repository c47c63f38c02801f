"""``axonrl submit``, ``status``, ``logs`` and ``stop``, through Polyaxon's own client."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..console import print_json, print_rows
from ..errors import ExperimentError
from .client import (
    PolyaxonError,
    connect,
    explained,
    nonsense,
    owner_and_project,
    run_client,
)
from .settings import HOST, checked_option, project_name, server_address, settings_of

_RUN = re.compile(r"((?P<host>https?://.+?)/ui/)?(?P<project>[^/]+/[^/]+)/(runs/)?(?P<uuid>[0-9a-f]{32})/?")


@dataclasses.dataclass(frozen=True)
class Target:
    """A project on a server, or a run in it.

    Args:
        host: the server's address.
        owner: the owner of the project.
        project: its name.
        uuid: the run's; empty for the project itself.
    """

    host: str
    owner: str
    project: str
    uuid: str = ""

    def __str__(self) -> str:
        """The address of its page."""
        run = f"/runs/{self.uuid}" if self.uuid else ""
        return f"{self.host}/ui/{self.owner}/{self.project}{run}"


def submit(arguments: argparse.Namespace) -> int:
    """Create a run of an experiment on a server, and print the address of its page."""
    from ...core.yaml_text import to_yaml
    from ..config.modules import folders
    from ..config.schema import load
    from ..config.shipped import experiment_file
    from .operation import operation

    params = dict(arguments.params)
    experiment, document = load(experiment_file(arguments.file), params, dict(arguments.sets))
    folders(document)  # in the image, too, a module's name must be unique
    made = operation(experiment, document, params)
    if arguments.dry_run:
        print(to_yaml(made), end="")
        return 0
    settings = settings_of(experiment)
    project = settings.project
    if arguments.project is not None:
        project = checked_option("--project", project_name, arguments.project)
    target = Target(_host(settings.host), *owner_and_project(project))
    with _client(target) as run:
        run.create(content=json.dumps(made))
        uuid = run.run_uuid
        if not uuid:
            raise nonsense(target.host)
    print(dataclasses.replace(target, uuid=uuid))
    return 0


def status(arguments: argparse.Namespace) -> int:
    """Print the status of a run."""
    target = _target(arguments.run)
    with _client(target) as run:
        _refresh(run, target)
        statuses = run.client.runs_v1.get_run_statuses(target.owner, target.project, target.uuid)
        facts = _facts(run.run_data, statuses.status_conditions or ())
    if arguments.json:
        print_json({"page": str(target), **facts})
        return 0
    rows = {key: str(value) for key, value in facts.items() if not isinstance(value, dict) and value is not None}
    for kind in ("inputs", "outputs"):
        rows |= {name: str(value) for name, value in facts[kind].items()}
    print_rows(target.uuid, rows)
    print(f"page: {target}")
    return 0


def _facts(data: Any, conditions: Sequence[Any]) -> dict[str, Any]:
    times = {key: getattr(data, f"{key}_at") for key in ("created", "started", "finished")}
    return {
        "name": data.name,
        "status": str(data.status),
        "message": conditions[-1].message if conditions else None,
        **{key: time and time.isoformat(timespec="seconds") for key, time in times.items()},
        "inputs": dict(data.inputs or {}),
        "outputs": dict(data.outputs or {}),
    }


def logs(arguments: argparse.Namespace) -> int:
    """Print the log of a run so far."""
    target, last_file = _target(arguments.run), None
    with _client(target) as run:
        _refresh(run, target)
        while True:
            found = run.get_logs(last_file=last_file)
            for line in found.logs or ():
                print(line.value)
            if not found.last_file or found.last_file == last_file:
                return 0
            last_file = found.last_file


def stop(arguments: argparse.Namespace) -> int:
    """Ask the server to stop a run, and print its status."""
    from polyaxon.schemas import LifeCycle

    target = _target(arguments.run)
    with _client(target) as run:
        _refresh(run, target)
        if LifeCycle.is_done(run.status):
            print(f"already ended: {run.status}")
            return 0
        run.stop()
        _refresh(run, target)
    print(run.status)
    return 0


def _refresh(run: Any, target: Target) -> None:
    """Request the run, and check that the answer is about it."""
    run.refresh_data()
    if run.run_data.uuid != target.uuid:
        raise nonsense(target.host)


def _target(text: str) -> Target:
    """The run that a user's text names."""
    match = _RUN.fullmatch(text)
    if not match:
        raise ExperimentError(f"RUN {text}", "must be OWNER/PROJECT/UUID, or the address that axonrl submit printed")
    owner, project = owner_and_project(checked_option("RUN", project_name, match["project"]))
    host = checked_option("RUN", server_address, match["host"]) if match["host"] else _host(None)
    return Target(host, owner, project, match["uuid"])


def _host(host: str | None) -> str:
    """The server in the file, or else in the environment."""
    found = host or os.environ.get(HOST)
    if not found:
        message = "No Polyaxon server is known. Set POLYAXON_HOST=https://..., or tracker: {host: ...} in the file."
        raise ExperimentError("", message)
    return checked_option(HOST, server_address, found)


@contextmanager
def _client(target: Target) -> Iterator[Any]:
    """Polyaxon's client for a run, or for new runs in a project.

    Raises:
        ExperimentError: the server refused the token, the project or the run.
        ConnectionError: the server failed, or could not be reached.
    """
    owner, project = target.owner, target.project
    try:
        client = connect(target.host)
    except PolyaxonError as error:  # the token is invalid
        raise ExperimentError("", str(error)) from None
    try:
        with explained(client, owner, project):
            yield run_client(client, owner, project, target.uuid or None)
    except PolyaxonError as error:
        if error.status == 404:
            missing = (
                f"run {target.uuid} in the project {owner}/{project}" if target.uuid else f"project {owner}/{project}"
            )
            raise ExperimentError("", f"{target.host} has no {missing}") from None
        if error.status is not None and error.status < 500:
            raise ExperimentError("", str(error)) from None
        raise ConnectionError(str(error)) from error
