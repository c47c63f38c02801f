"""A run in Weights & Biases: in a file of its offline mode, and on a server that fails."""

import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import matplotlib.image
import numpy as np
import pytest

from axonrl.experiments.commands.sync import sync_run
from axonrl.experiments.config.schema import load
from axonrl.experiments.tracking import producer
from axonrl.experiments.tracking import wandb as tracking
from axonrl.experiments.tracking.journal import Journal
from axonrl.experiments.tracking.producer import tracked
from axonrl.experiments.tracking.wandb import WandbError, WandbTracker
from axonrl.tests.experiments import fakes
from axonrl.tests.experiments.sharing import tracked_run, wait
from axonrl.tests.fake_wandb import FakeWandb, records
from axonrl.tests.misbehaving_server import HANGS, PASSES_ON, MisbehavingServer
from axonrl.tests.raising import raised

UUID: Final = "0123456789abcdef0123456789abcdef"
INPUTS: Final = {"rate": 0.5, "agent.model_fn": "dqn", "environment.id": "CartPole-v1", "hooks": []}
EXPERIMENT: Final = f"{fakes.EXPERIMENT}tracker: {{kind: wandb, project: poles}}\n"


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where W&B finds no settings of the user's, and keeps none for the next test."""
    wandb: Any = pytest.importorskip("wandb", reason="wandb is not installed, so it is not tested: axonrl[wandb]")
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name, value in {**tracking.VARIABLES, "WANDB_API_KEY": "a" * 40, "WANDB_CONFIG_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    yield
    wandb.teardown()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MisbehavingServer]:
    with MisbehavingServer(PASSES_ON) as server:
        server.behind = FakeWandb()
        server.behind.host = server.host
        monkeypatch.setenv("WANDB_BASE_URL", server.host)
        yield server


class Run:
    """A run whose journal the test writes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self._journal = folder, Journal(folder)
        self._steps = itertools.count(1)
        self.wanted: list[tuple[str, int, float]] = []
        """Name, step and value of each point, in order."""
        self._journal.write(run={"uuid": UUID, "name": "pole", "description": "a pole", "inputs": INPUTS})
        self._journal.status("running")
        self._journal.write(cut=0, update=0, episode=0)

    def points(self, number: int) -> None:
        """Two episodes at a step end together, with equal lengths."""
        for step, _ in zip(self._steps, range(number), strict=False):
            for episode in (2 * step, 2 * step + 1):
                metrics = {"rollout/length": 9.0, "rollout/return": float(episode)}
                self._journal.write(step=step, episode=episode, metrics=metrics)
                self.wanted += [(name, step, value) for name, value in metrics.items()]

    def cut(self, step: int) -> None:
        """Continue from a step."""
        self._steps = itertools.count(step + 1)
        self._journal.write(cut=step, update=0, episode=2 * step + 1)
        self.wanted = [point for point in self.wanted if point[1] <= step]

    def status(self, status: str, **entry: Any) -> None:
        self._journal.write(**entry or {"log": "a line"})
        self._journal.status(status)

    def read(self) -> Any:
        return tracked_run(self.folder)


def points_of(rows: list[dict[str, Any]]) -> list[tuple[str, int, float]]:
    """The points of rows, with the names in order."""
    own = ("_step", "_runtime", "_timestamp", tracking.AXIS)
    return [(name, row[tracking.AXIS], row[name]) for row in rows for name in sorted(row) if name not in own]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def test_the_file_of_the_offline_mode_has_everything_once(run: Run) -> None:
    tracker = WandbTracker("poles", "offline", tags=["mine"])
    run.points(2)
    tracker.push(run.read())
    run.points(2)
    held = run.read()
    tracker.push(held)
    run.cut(3)
    held.read()
    tracker.push(held)
    run.points(2)
    run.status("failed")
    held.read()
    tracker.push(held)
    run.cut(4)
    run.points(3)
    picture = np.arange(12).reshape(2, 2, 3) / 12
    matplotlib.image.imsave(run.folder / "learning_curve.png", picture)
    (run.folder / "experiment.yml").write_text("name: pole\n")
    run.status("succeeded", outputs={"final_episode_return_mean": 7.0})
    again = WandbTracker("poles", "offline", tags=["mine"])  # in the process that resumed it, or in axonrl sync
    again.push(run.read())
    again.push(run.read())

    (file,) = run.folder.glob("wandb/offline-run-*/*.wandb")
    wait(lambda: any(record.WhichOneof("record_type") == "exit" for record in records(file)))  # W&B's process writes it
    rows, summary, found, saved, codes = [], dict[str, Any](), list[Any](), set[str](), list[int]()
    for record in records(file):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            keys = [item.key or "/".join(item.nested_key) for item in record.history.item]
            rows.append({key: json.loads(i.value_json) for key, i in zip(keys, record.history.item, strict=True)})
        elif kind == "summary":
            summary |= {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.summary.update}
        elif kind == "run":
            found.append(record.run)
        elif kind == "files":
            saved |= {one.path for one in record.files.files}
        elif kind == "exit":
            codes.append(record.exit.exit_code)
    assert points_of(rows) == run.wanted
    assert {row["_step"] for row in rows} == {*range(1, len(run.wanted), 2)}
    (told,) = found
    config = {item.key: json.loads(item.value_json) for item in told.config.update}
    assert {name: config[name] for name in INPUTS} == INPUTS
    assert (told.run_id, told.project, told.display_name, told.notes) == (UUID, "poles", "pole", "a pole")
    assert [*told.tags] == ["mine", "dqn", "CartPole-v1"]
    assert summary["final_episode_return_mean"] == 7.0
    assert summary["learning_curve"]["_type"] == "image-file"
    image = matplotlib.image.imread(file.parent / "files" / summary["learning_curve"]["path"])
    np.testing.assert_allclose(image[..., :3], picture, atol=1 / 255)
    assert {"experiment.yml", "log.txt"} <= saved
    assert codes == [0]


@pytest.mark.server
@pytest.mark.parametrize("behaviour", [HANGS, 500])
def test_what_a_server_lacks_is_sent_when_it_answers_again(
    behaviour: str | int, run: Run, server: MisbehavingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tracking.SETTINGS, "finish_timeout", 0.5)
    tracker, behind = WandbTracker("poles"), server.behind
    run.points(2)
    run.status("stopped")
    tracker.push(run.read())
    assert (points_of(behind.rows(UUID)), behind.exit_codes[UUID]) == (run.wanted, 255)
    run.status("running")
    run.points(2)
    tracker.push(run.read())
    server.behaviour = behaviour  # after the run began there, before what it has is sent
    run.points(2)
    run.status("failed")
    raised(WandbError, tracker.push, run.read())
    server.behaviour = PASSES_ON
    WandbTracker("poles").push(run.read())
    assert points_of(behind.rows(UUID)) == run.wanted
    assert behind.exit_codes[UUID] == 1
    tags, config = behind.runs[UUID]["tags"], json.loads(behind.runs[UUID]["config"])
    assert tags == ["dqn", "CartPole-v1"]
    assert {name: config[name]["value"] for name in INPUTS} == INPUTS


@pytest.mark.server
@pytest.mark.parametrize("behaviour", [HANGS, 500])
def test_a_training_does_not_wait_for_a_server(
    behaviour: str | int,
    server: MisbehavingServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("POLYAXON_NO_OP")
    monkeypatch.setattr(producer, "EXIT_SECS", 0.5)
    file, folder = tmp_path / "pole.yml", tmp_path / "run"
    file.write_text(EXPERIMENT)
    folder.mkdir()
    (folder / "experiment.yml").write_text(EXPERIMENT)
    server.behaviour = behaviour
    journal = Journal(folder)
    with tracked(folder, load(file)[0]):
        journal.write(cut=0, update=0, episode=0)
        wait(lambda: server.requests)
        for step in (1, 2):
            journal.write(step=step, episode=step, metrics={"rollout/return": float(step)})
    journal.close()
    assert "axonrl sync" in caplog.text
    server.behaviour = PASSES_ON
    assert sync_run(folder) == [("wandb", "")]
    ((uuid, rows),) = ((uuid, server.behind.rows(uuid)) for uuid in server.behind.runs)
    assert points_of(rows) == [("rollout/return", 1, 1.0), ("rollout/return", 2, 2.0)]
    assert server.behind.exit_codes == {uuid: 0}


@pytest.mark.server
def test_a_refusal_is_told_with_what_to_do_and_the_next_push_sends_everything(
    run: Run, server: MisbehavingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login, tracker = "requires a login: set WANDB_API_KEY, or run: wandb login", WandbTracker()
    server.behaviour = 401
    raised(WandbError, tracker.push, run.read(), match=login)
    server.behaviour = PASSES_ON
    run.points(1)
    run.status("succeeded")
    tracker.push(run.read())
    assert points_of(server.behind.rows(UUID)) == run.wanted
    sys.modules["wandb"].teardown()  # it knows the key
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    raised(WandbError, WandbTracker().push, run.read(), match=login)
    monkeypatch.setitem(sys.modules, "wandb", None)
    raised(WandbError, WandbTracker().push, run.read(), match=r"pip install 'axonrl\[wandb\]'")
