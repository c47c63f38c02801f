"""Runs on a real Polyaxon server: tracked as they train, resumed, failed, stopped there, and synced later."""

import gzip
import json
import signal
import subprocess
import time
import urllib.parse
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout

from axonrl.experiments.commands.cli import main
from axonrl.experiments.config.schema import load
from axonrl.experiments.polyaxon.client import PolyaxonError
from axonrl.experiments.polyaxon.metrics import on_server
from axonrl.experiments.polyaxon.offline import OfflineRun
from axonrl.experiments.polyaxon.tracker import SENDING
from axonrl.experiments.polyaxon.tracker import PolyaxonServer as PolyaxonTracker
from axonrl.experiments.tracking import producer
from axonrl.experiments.tracking.follower import LOCK
from axonrl.experiments.tracking.journal import Journal, TrackedRun
from axonrl.tests.experiments.fakes import SLOW
from axonrl.tests.experiments.sharing import files, tracked_run, wait
from axonrl.tests.polyaxon_server import PolyaxonServer

EXPERIMENT = """
name: pole
description: a short one
seed: 3
params: {rate: 1e-3}
environment: {id: CartPole-v1}
agent:
  model_fn: dqn
  params: {hidden: [8], learning_rate: "${rate}"}
  memory: {kind: replay, size: 1000, batch_size: 8}
config: {save_summary_steps: 10, save_checkpoints_steps: 20}
train: {first_update: 20, update_frequency: 5, max_timesteps: 400}
evaluate: {episodes: 2}
hooks: [{kind: evaluation, every_timesteps: 200, episodes: 2}]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polyaxon_server: PolyaxonServer) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POLYAXON_NO_OP")
    monkeypatch.setenv("POLYAXON_HOST", polyaxon_server.host)
    monkeypatch.setattr(producer, "EXIT_SECS", 120.0)  # however busy the machine is
    (tmp_path / "pole.yml").write_text(EXPERIMENT)
    return tmp_path / "pole.yml"


class Remote:
    """A run as the server has it, asked for without Polyaxon's client."""

    def __init__(self, server: PolyaxonServer, folder: Path, project: str = "axonrl") -> None:
        self.run = tracked_run(folder)
        self._server, self._where = server, f"default/{project}/runs/{self.run.uuid}"
        self.local = folder / "polyaxon" / "runs" / self.run.uuid
        self.files = server.folder / self.run.uuid

    def get(self, path: str = "") -> Any:
        return self._ask(f"api/v1/{self._where}{path}")

    def events(self, name: str) -> list[tuple[int, float]]:
        """Read from the file, not from a copy that the server keeps of the last answer."""
        query = f"names={name}&sample=1000000&force=true"
        (found,) = self._ask(f"streams/v1/polyaxon/{self._where}/events/metric?{query}")["data"]
        return list(zip(found["data"]["step"], found["data"]["metric"], strict=True))

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._server.host}/{path}", timeout=240) as answer:
            data = answer.read()
            return json.loads(gzip.decompress(data) if answer.headers["Content-Encoding"] == "gzip" else data)

    @property
    def statuses(self) -> list[str]:
        return [one["type"] for one in self.get("/statuses")["status_conditions"]]

    def points(self, name: str) -> list[tuple[int, float]]:
        """The same from the run's journal."""
        self.run.read()
        return [(point.step, point.value) for point in self.run.points if point.name == name]

    def is_found_by(self, metric: str) -> bool:
        """By the query of the server's tuner for the runs of a search that have this metric."""
        query = urllib.parse.quote(f"uuid:{self.run.uuid}, metrics.{metric}:~nil, status: succeeded")
        found = self._ask(f"api/v1/{self._where.rpartition('/')[0]}?query={query}")
        return [one["uuid"] for one in found["results"]] == [self.run.uuid]

    def has_all_files(self) -> bool:
        return files(self.local).items() <= files(self.files).items()


def is_followed(folder: Path) -> bool:
    try:
        with FileLock(str(folder / LOCK), timeout=0):
            return False
    except Timeout:
        return True


def test_a_run_and_its_continuation(file: Path, polyaxon_server: PolyaxonServer) -> None:
    assert main(["run", str(file), "-P", "rate=5e-4", "--set", "train.max_timesteps=200"]) == 0
    assert main(["run", str(file), "-P", "rate=5e-4", "--resume"]) == 0
    remote = Remote(polyaxon_server, Path("runs/pole"))
    data = remote.get()
    assert (data["name"], data["status"], data["description"]) == ("pole", "succeeded", "a short one")
    assert (data["inputs"]["rate"], data["inputs"]["agent.params.learning_rate"]) == (5e-4, 5e-4)
    assert (data["inputs"]["train.max_timesteps"], data["outputs"]["timesteps"]) == (400, 400)
    assert data["outputs"]["final_episode_return_mean"] > 0
    assert remote.statuses == ["created", "running", "succeeded", "resuming", "running", "succeeded"]
    assert remote.has_all_files()
    found = ("return", "final_episode_length_mean", "rollout/return_mean", "eval/return_mean", "train/loss", "seconds")
    for name in found:
        submitted = on_server({"metric": {"name": name}}, *load(file))["metric"]["name"]
        assert remote.is_found_by(submitted), (name, submitted)
    assert not remote.is_found_by("eval_return_men")
    episodes = remote.points("rollout/return")
    assert remote.events("rollout__return") == episodes
    assert len(episodes) == data["outputs"]["episodes"]
    assert len(remote.events("train__loss")) == 7  # 77 updates
    assert [step for step, _ in remote.events("eval__return_mean")] == [200, 400]
    kept = {path.name for path in (remote.files / "outputs").iterdir()}
    assert {"experiment.yml", "learning_curve.png", "best.safetensors"} <= kept
    kinds = {one["name"]: one["kind"] for one in remote.get("/lineage/artifacts?limit=100")["results"]}
    names = ("learning_curve.png", "best.safetensors", "train__loss")
    assert [kinds[name] for name in names] == ["image", "model", "metric"]


@pytest.mark.usefixtures("agents")
def test_a_killed_run_has_every_point_once_when_it_is_resumed(file: Path, polyaxon_server: PolyaxonServer) -> None:
    many = ["--set", "train.max_timesteps=1000000", "--set", "hooks=[]"]
    command = [*SLOW, "run", str(file), *many]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = Path("runs/pole")

    def is_live() -> bool:
        """Are there points on the server while it trains?"""
        try:
            return len(Remote(polyaxon_server, folder).events("rollout__return")) > 0
        except (OSError, ValueError):
            return False

    wait(is_live)
    process.send_signal(signal.SIGKILL)
    process.wait()
    remote = Remote(polyaxon_server, folder)
    timestep = remote.points("rollout/return")[-1][0]
    limit = ["--set", f"train.max_timesteps={timestep + 500}"]
    assert main(["run", str(file), *many[2:], "--resume", *limit]) == 0
    episodes = [int(line.split(",")[1]) for line in (folder / "episodes.csv").read_text().splitlines()[1:]]
    assert [step for step, _ in remote.events("rollout__return")] == episodes
    assert remote.statuses == ["created", "running", "failed", "resuming", "running", "succeeded"]
    assert remote.has_all_files()


@pytest.mark.usefixtures("agents")
def test_a_run_that_is_stopped_at_the_server(
    file: Path, polyaxon_server: PolyaxonServer, failures: list[Exception]
) -> None:
    sets = ["--set", "train.max_timesteps=100000000", "--set", "hooks=[]"]
    process = subprocess.Popen([*SLOW, "run", str(file), *sets], stderr=subprocess.PIPE)
    folder = Path("runs/pole")

    def is_running() -> bool:
        try:
            return Remote(polyaxon_server, folder).statuses[-1] == "running"
        except (OSError, IndexError):
            return False

    wait(is_running)
    remote = Remote(polyaxon_server, folder)
    assert main(["stop", f"default/axonrl/{remote.run.uuid}"]) == 0
    _, err = process.communicate(timeout=240)
    assert process.returncode == 143
    wait(lambda: not is_followed(folder))
    assert main(["sync", str(folder)]) == 0  # on a busy machine there may be something left
    where = f"axonrl: Stopped (the run was stopped at {polyaxon_server.host}) at timestep"
    assert where in err.decode()
    conditions = remote.get("/statuses")["status_conditions"]
    assert conditions[-1]["type"] == "stopped"
    assert [one["type"] for one in conditions if one["reason"] == "axonrl"] == ["created", "running", "stopped"]
    assert remote.events("rollout__return") == remote.points("rollout/return")
    # Resumed, it is not stopped again by the old request, and it can fail.
    failures.append(ArithmeticError("it broke"))
    command = ["run", str(file), "--resume", "--set", "hooks=[]", "--set", "train.max_timesteps=20"]
    assert main(command) == 1
    conditions = remote.get("/statuses")["status_conditions"]
    assert [one["type"] for one in conditions][-2:] == ["resuming", "failed"]
    assert conditions[-1]["message"] == "ArithmeticError: it broke"


def test_statuses_come_in_their_order_to_a_server_that_missed_some(
    tmp_path: Path, polyaxon_server: PolyaxonServer
) -> None:
    journal = Journal(tmp_path)
    journal.write(run={"uuid": uuid.uuid4().hex, "name": "late", "description": "", "inputs": {}})
    for status in ("created", "running", "stopped", "resuming", "running"):
        journal.status(status)
        time.sleep(0.002)  # a server keeps milliseconds
    run, tracker = TrackedRun(tmp_path), PolyaxonTracker(polyaxon_server.host)
    run.read()
    OfflineRun().write(run)
    tracker.push(run)
    tracker.push(run)  # nobody stopped it there
    assert Remote(polyaxon_server, tmp_path).statuses == ["created", "running", "stopped", "resuming", "running"]
    left = tmp_path / "polyaxon" / SENDING  # of a process that was killed while it sent
    left.mkdir()
    tracker.push(run)
    assert not left.exists()


def test_a_run_in_another_project_or_deleted(tmp_path: Path, polyaxon_server: PolyaxonServer) -> None:
    identity = uuid.uuid4().hex
    journal = Journal(tmp_path)
    journal.write(run={"uuid": identity, "name": "pole", "description": "", "inputs": {}})
    journal.status("created")
    tracked_run = TrackedRun(tmp_path)
    tracked_run.read()
    OfflineRun().write(tracked_run)
    PolyaxonTracker(polyaxon_server.host).push(tracked_run)
    message = "refuses the run in the project default/{}: it exists in another project, or was deleted"
    with pytest.raises(PolyaxonError, match=message.format("elsewhere")):
        PolyaxonTracker(polyaxon_server.host, "elsewhere").push(tracked_run)
    url = f"{polyaxon_server.host}/api/v1/default/axonrl/runs/{identity}"
    urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=240).close()
    with pytest.raises(PolyaxonError, match=message.format("axonrl")):
        PolyaxonTracker(polyaxon_server.host).push(tracked_run)
