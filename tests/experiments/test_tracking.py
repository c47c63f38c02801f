"""A tracked run: the journal, the process that follows it, and the Polyaxon run in the run folder."""

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.core.yaml_text import to_yaml
from axonrl.experiments import child_process
from axonrl.experiments.child_process import Message
from axonrl.experiments.config.schema import load
from axonrl.experiments.polyaxon.offline import OfflineRun, run_path
from axonrl.experiments.tracking import follower, producer
from axonrl.experiments.tracking.follower import Pusher, follow
from axonrl.experiments.tracking.journal import KILLED, Journal, RunGroup, TrackedRun
from axonrl.experiments.tracking.producer import tracked
from axonrl.experiments.tracking.trackers import Choice, StopRequestedError, choices, make_trackers
from axonrl.tests.experiments.sharing import tracked_run, wait

UUID = "0123456789abcdef0123456789abcdef"
EXPERIMENT = """
name: tried
description: a try
seed: 3
params:
  rate: 0.5
environment: {id: CartPole-v1}
agent: {model_fn: dqn, params: {learning_rate: "${rate}"}, memory: {kind: replay, size: 100, batch_size: 10}}
train: {max_timesteps: 50}
"""


@pytest.fixture(autouse=True)
def is_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.delenv("POLYAXON_NO_OP")
    monkeypatch.setattr(producer, "EXIT_SECS", 120.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run that is about to begin."""
    (tmp_path / "file.yml").write_text(EXPERIMENT)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "experiment.yml").write_text(to_yaml(load(tmp_path / "file.yml")[0].model_dump()))
    return folder


@pytest.fixture
def journal(folder: Path) -> Iterator[Journal]:
    """The journal of a run that began, with two metrics."""
    journal = Journal(folder)
    journal.write(run={"uuid": UUID, "name": "tried", "description": "a try", "inputs": {"seed": 3}})
    journal.status("created")
    journal.status("running")
    journal.write(step=10, metrics={"rollout/return": 1.0})
    journal.write(step=20, metrics={"rollout/return": 3.0, "train/loss": 0.25})
    journal.write(log="half of it is done")
    yield journal
    journal.close()


def event_rows(folder: Path, name: str, uuid: str = UUID) -> list[tuple[int, float]]:
    """Step and value of every event of a metric, as Polyaxon would read them."""
    path = folder / "polyaxon" / "runs" / uuid / "events" / "metric" / f"{name}.plx"
    header, *rows = path.read_text().splitlines()
    assert header == "step|timestamp|metric"
    return [(int(row.split("|")[0]), float(row.split("|")[2])) for row in rows]


def run_data(folder: Path, uuid: str = UUID) -> Any:
    return json.loads((folder / "polyaxon" / "runs" / uuid / "run.plx.json").read_bytes())


def test_the_polyaxon_run(folder: Path, journal: Journal) -> None:
    """Check its files, and how Polyaxon's own client reads them."""
    from polyaxon.client import RunClient

    (folder / "best.safetensors").write_bytes(b"weights")
    (folder / "videos").mkdir()
    (folder / "videos" / "timestep-20.mp4").write_bytes(b"video")
    offline, run = OfflineRun(), tracked_run(folder)
    offline.write(run)
    assert event_rows(folder, "rollout__return") == [(10, 1.0), (20, 3.0)]
    assert event_rows(folder, "train__loss") == [(20, 0.25)]
    path = run_path(run)
    assert path == folder / "polyaxon" / "runs" / UUID
    (line,) = [json.loads(line) for line in (path / "plxlogs" / "logs.jsonl").read_text().split("\n") if line]
    assert line["value"] == "half of it is done"
    assert (path / "outputs" / "best.safetensors").read_bytes() == b"weights"
    assert (path / "outputs" / "videos" / "timestep-20.mp4").read_bytes() == b"video"
    assert (path / "outputs" / "experiment.yml").read_bytes() == (folder / "experiment.yml").read_bytes()
    data = run_data(folder)
    assert (data["name"], data["status"], data["inputs"]) == ("tried", "running", {"seed": 3})
    assert data["outputs"] == {
        **{"rollout__return": 3.0, "train__loss": 0.25},
        **{"rollout_return": 3.0, "train_loss": 0.25},  # which a server finds
    }
    assert "finished_at" not in data
    lineage = {one["name"]: one for one in json.loads((path / "lineages.plx.json").read_bytes())}
    assert lineage["rollout__return"]["summary"]["metric"] == {"count": 2, "mean": 2, "min": 1, "max": 3, "last": 3}
    assert {one["kind"] for one in lineage.values()} == {"metric", "model", "video", "file"}
    assert all((path / one["path"]).is_file() for one in lineage.values())
    client = RunClient(owner="default", project="axonrl", run_uuid=UUID, is_offline=True, no_op=False)
    loaded = RunClient.load_offline_run(str(path), client, raise_if_not_found=True)
    assert (loaded.run_data.name, set(loaded.artifacts_lineage)) == ("tried", set(lineage))

    journal.write(step=30, metrics={"rollout/return": 5.0})
    journal.write(outputs={"episodes": 3})
    (folder / "best.safetensors").unlink()
    (folder / "best.safetensors").write_bytes(b"better weights")
    journal.status("failed", "ValueError: it broke")
    run.read()
    offline.write(run)
    offline.write(run)
    assert event_rows(folder, "rollout__return") == [(10, 1.0), (20, 3.0), (30, 5.0)]
    assert (path / "outputs" / "best.safetensors").read_bytes() == b"better weights"
    data = run_data(folder)
    assert (data["status"], data["outputs"]["episodes"], data["outputs"]["rollout__return"]) == ("failed", 3, 5.0)
    assert [one["type"] for one in data["status_conditions"]] == ["created", "running", "failed"]
    assert data["status_conditions"][-1]["message"] == "ValueError: it broke"
    assert data["duration"] == pytest.approx(run.statuses[-1].time - run.statuses[1].time, abs=1e-3)


def test_a_resumed_run_has_every_point_once(folder: Path, journal: Journal) -> None:
    offline, run = OfflineRun(), tracked_run(folder)
    offline.write(run)
    journal.write(cut=10, update=0, episode=0)
    journal.write(step=20, metrics={"rollout/return": 4.0})
    run.read()
    offline.write(run)
    assert event_rows(folder, "rollout__return") == [(10, 1.0), (20, 4.0)]
    assert event_rows(folder, "train__loss") == []  # on a server a file of this name would stay
    assert run_data(folder)["outputs"] == {"rollout__return": 4.0, "rollout_return": 4.0}
    before = (run_path(run) / "events" / "metric" / "rollout__return.plx").read_bytes()
    OfflineRun().write(tracked_run(folder))  # another process, which begins with everything
    assert (run_path(run) / "events" / "metric" / "rollout__return.plx").read_bytes() == before
    assert event_rows(folder, "train__loss") == []
    journal.write(step=30, metrics={"train/loss": 0.75})
    run.read()
    offline.write(run)
    assert event_rows(folder, "train__loss") == [(30, 0.75)]


def test_metrics_keep_apart_whose_names_polyaxon_writes_alike(folder: Path, journal: Journal) -> None:
    names = ["a.b", "a-b", "損失", "報酬", "x" * 300, "x" * 301]
    journal.write(step=30, metrics={name: float(number) for number, name in enumerate(names)})
    OfflineRun().write(tracked_run(folder))
    alike = ["a-b", "a-b-2", "metric", "metric-2", "x" * 120, "x" * 120 + "-2"]
    assert [event_rows(folder, name) for name in alike] == [[(30, float(number))] for number in range(6)]


LOCAL = [Choice("polyaxon", None)]
"""The files in the run folder alone."""


class Recorder:
    """A tracker that writes down what it is told, and fails as often as it is told to."""

    def __init__(self, failures: int = 0, stop: bool = False) -> None:
        self.failures, self.stop = failures, stop
        self.pushed: list[tuple[int, str]] = []
        self.done = threading.Event()

    def push(self, run: TrackedRun) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("nobody is there")
        self.pushed.append((len(run.points), run.status))
        if run.status == "succeeded":
            self.done.set()
        if self.stop:
            raise StopRequestedError("it was stopped at the recorder")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything at short intervals."""
    monkeypatch.setattr(follower, "LOCAL_SECS", 0.02)
    monkeypatch.setattr(follower, "PUSH_SECS", 0.02)
    monkeypatch.setattr(follower, "RETRY_SECS", 0.02)
    monkeypatch.setattr(follower, "EXIT_SECS", 5.0)


@pytest.mark.usefixtures("quick")
def test_a_tracker_is_told_until_it_holds_everything(
    folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady, shaky = Recorder(), Recorder(failures=3)
    monkeypatch.setattr(follower, "make_trackers", lambda _: [("steady", steady), ("shaky", shaky)])
    told: list[Message] = []
    ended = threading.Event()
    thread = threading.Thread(target=follow, args=(folder, LOCAL, ended, told.append))
    thread.start()
    wait(lambda: steady.pushed)
    assert steady.pushed[0] == (3, "running")
    journal.write(step=30, metrics={"rollout/return": 5.0})
    journal.status("succeeded")
    ended.set()
    thread.join(240)
    assert steady.pushed[-1] == shaky.pushed[-1] == (4, "succeeded")
    trouble = "tracker shaky: ConnectionError: nobody is there; retrying, and training continues"
    assert told == [Message("warning", trouble), Message("warning", "tracker shaky: works again")]
    assert event_rows(folder, "rollout__return") == [(10, 1.0), (20, 3.0), (30, 5.0)]


@pytest.mark.usefixtures("quick")
def test_a_tracker_that_never_answers_is_left_behind(
    folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging:
        def push(self, run: TrackedRun) -> None:
            time.sleep(3600)

    recorder = Recorder()
    monkeypatch.setattr(follower, "EXIT_SECS", 0.5)
    monkeypatch.setattr(follower, "make_trackers", lambda _: [("hanging", Hanging()), ("recorder", recorder)])
    told: list[Message] = []
    ended = threading.Event()
    ended.set()
    journal.status("succeeded")
    follow(folder, LOCAL, ended, told.append)
    assert recorder.pushed[-1] == (3, "succeeded")
    rest = f"not everything has reached hanging; axonrl sync {folder} sends the rest"
    assert told == [Message("warning", rest)]
    assert run_data(folder)["status"] == "succeeded"


@pytest.mark.usefixtures("quick")
def test_a_tracker_that_is_left_behind_is_not_told_later(
    folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process may follow other runs, or a resumed start of this one, and MLflow would hold values twice."""
    monkeypatch.setattr(follower, "EXIT_SECS", 0.1)
    monkeypatch.setattr(follower, "make_trackers", lambda _: [("down", Recorder(failures=10**9))])
    ended = threading.Event()
    ended.set()
    journal.status("succeeded")
    follow(folder, LOCAL, ended, lambda message: None)
    left = [thread for thread in threading.enumerate() if isinstance(thread, Pusher) and thread.name == "down"]
    for thread in left:
        thread.join(30)
    assert not any(thread.is_alive() for thread in left)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("bound", "is_made"), [(60.0, True), (0.5, False)])
def test_what_would_be_ruined_half_made_is_waited_for_and_for_how_long_is_said(
    folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch, bound: float, is_made: bool
) -> None:
    told, made = list[Message](), threading.Event()

    class Preparing(Recorder):
        def push(self, run: TrackedRun) -> None:
            self.preparing = not made.is_set()
            made.wait(240)
            self.preparing = False
            super().push(run)

    recorder = Preparing()

    def tell(message: Message) -> None:
        told.append(message)
        if is_made:
            threading.Timer(1.0, made.set).start()

    monkeypatch.setattr(follower, "EXIT_SECS", 0.3)
    monkeypatch.setattr(follower, "PREPARE_SECS", bound)
    monkeypatch.setattr(follower, "make_trackers", lambda _: [("store", recorder)])
    (ended := threading.Event()).set()
    follow(folder, LOCAL, ended, tell)
    what = "store: a new store is being created; the end of the run waits for that, for at most"
    assert told[0] == Message("wait", f"{what} {bound:g} seconds")
    rest = Message("warning", f"not everything has reached store; axonrl sync {folder} sends the rest")
    assert (told[1:], bool(recorder.pushed)) == (([], True) if is_made else ([rest], False))
    made.set()


@pytest.mark.usefixtures("quick")
def test_a_run_that_is_stopped_at_a_tracker(folder: Path, journal: Journal) -> None:
    recorder, told = Recorder(stop=True), list[Message]()
    pusher = Pusher("recorder", recorder, tracked_run(folder), told.append)
    pusher.start()
    wait(lambda: len(recorder.pushed) >= 3)
    assert told == [Message("stop", "it was stopped at the recorder")]  # once
    recorder.stop = False
    pusher.end()
    pusher.join(240)
    assert pusher.done


def statuses(folder: Path) -> list[tuple[str, str]]:
    return [(one.status, one.message) for one in tracked_run(folder).statuses]


@pytest.fixture
def no_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the journal is written; no process follows it."""

    class Nobody:
        def __init__(self, *_: Any) -> None: ...

        def finish(self) -> None: ...

    monkeypatch.setattr(producer, "_Follower", Nobody)


@pytest.mark.usefixtures("no_follower")
def test_the_statuses_of_a_run(folder: Path) -> None:
    experiment = load(folder / "experiment.yml")[0]
    with tracked(folder, experiment):
        pass
    run = tracked_run(folder)
    with pytest.raises(ZeroDivisionError), tracked(folder, experiment):
        raise ZeroDivisionError("division by zero")
    assert tracked_run(folder).uuid == run.uuid
    assert statuses(folder)[2:] == [("resuming", ""), ("failed", "ZeroDivisionError: division by zero")]
    with tracked(folder, experiment) as tracking:
        tracking.stopped = True
    with pytest.raises(KeyboardInterrupt), tracked(folder, experiment):
        raise KeyboardInterrupt
    assert [status for status, _ in statuses(folder)[4:]] == ["resuming", "stopped", "resuming", "stopped"]


@pytest.mark.usefixtures("no_follower")
def test_a_resumed_run_does_not_hold_its_journal_while_it_trains(folder: Path, journal: Journal) -> None:
    with tracked(folder, load(folder / "experiment.yml")[0]):
        gc.collect()
        assert [one for one in gc.get_objects() if isinstance(one, TrackedRun) and one.folder == folder] == []


def has_gone(pid: int) -> bool:
    """Has the process ended, and has this one been told?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_ctrl_c_while_trackers_are_waited_for_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pids: list[int] = []
    real = subprocess.Popen.wait

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is None:  # not by the one that Ctrl-C reaches
            return real(process)
        pids.append(process.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with tracked(folder, load(folder / "experiment.yml")[0]):
        pass
    (message,) = caplog.messages
    assert message == f"Tracking is behind: it has not finished yet. axonrl sync {folder} sends the rest."
    gc.collect()  # nothing is said of a process that nobody waits for
    wait(lambda: has_gone(pids[0]))  # it was left to end by itself
    assert statuses(folder)[-1] == ("succeeded", "")
    assert run_data(folder, tracked_run(folder).uuid)["status"] == "succeeded"


def test_a_process_that_says_that_it_will_be_late_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waited: list[float] = []
    real = subprocess.Popen.wait

    def late(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is None:
            return real(process)
        waited.append(timeout)
        if len(waited) == 1:
            wait(lambda: caplog.messages)
            raise subprocess.TimeoutExpired("follower", timeout)
        return real(process, 120)

    monkeypatch.setattr(subprocess.Popen, "wait", late)
    monkeypatch.setattr(child_process, "parse", lambda line: {"type": "wait", "text": json.loads(line)["text"]})
    (folder / "experiment.yml").write_text(f"{EXPERIMENT}tracker: 'nowhere:Tracker'\n")  # of which there is much to say
    with tracked(folder, load(folder / "experiment.yml")[0]):
        pass
    assert "Tracking is behind" not in caplog.text
    assert waited == [120.0 + producer.MARGIN_SECS, follower.PREPARE_SECS + 120.0]


def test_the_follower_ends_though_somebody_else_holds_its_input_open(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    ended = threading.Event()
    with os.fdopen(reads) as stdin, os.fdopen(writes, "w") as other:
        monkeypatch.setattr(sys, "stdin", stdin)
        threading.Thread(target=follower._wait_for_end, args=(ended,), daemon=True).start()
        print("the end", file=other, flush=True)
        assert ended.wait(240)


def test_nothing_is_tracked_where_polyaxon_is_told_to_do_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYAXON_NO_OP", "1")
    with tracked(folder, load(folder / "experiment.yml")[0]) as tracking:
        tracking.outputs({"episodes": 7})
        assert tracking.hooks == []
    assert [path.name for path in folder.iterdir()] == ["experiment.yml"]


def test_a_submitted_run_has_its_identity_and_one_of_many_a_tag_of_their_group(
    folder: Path, no_follower: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none of many is the run that Polyaxon started for all of them."""
    monkeypatch.setenv("POLYAXON_RUN_INSTANCE", f"me.cart.runs.{UUID}")
    experiment, group = load(folder / "experiment.yml")[0], RunGroup("tried", "9f" * 16)
    with tracked(folder, experiment):
        pass
    assert tracked_run(folder).uuid == UUID
    (folder / "journal.jsonl").unlink()
    with tracked(folder, experiment, group, "tried-seed-3"):
        pass
    with tracked(folder, experiment):  # resumed alone
        pass
    run = tracked_run(folder)
    assert (run.group, run.name) == (group, "tried-seed-3")
    assert run.uuid != UUID
    OfflineRun().write(run)
    assert run_data(folder, run.uuid)["tags"] == ["tried-9f9f9f9f"]
    assert "seeds" not in run.inputs


def test_the_data_of_a_run_is_replaced_whole(folder: Path, journal: Journal) -> None:
    """A reader that has opened it continues in the old file, never in half of the new one."""
    run, offline = tracked_run(folder), OfflineRun()
    offline.write(run)
    path = run_path(run) / "run.plx.json"
    before = path.read_bytes()
    with path.open("rb") as opened:
        run.description = "another"
        offline.write(run)
        assert opened.read() == before
    assert run_data(folder)["description"] == "another"
    assert not (folder / "polyaxon" / ".run.tmp").exists()


def test_the_follower_of_a_killed_process_finishes_the_run(folder: Path) -> None:
    program = (
        "import os, signal, sys, time; from pathlib import Path\n"
        "from axonrl.experiments.config.schema import load\n"
        "from axonrl.experiments.tracking.producer import tracked\n"
        "folder = Path(sys.argv[1])\n"
        "with tracked(folder, load(folder / 'experiment.yml')[0]):\n"
        "    while not list(folder.glob('polyaxon/runs/*/run.plx.json')): time.sleep(0.05)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(folder)], timeout=240, check=False)
    assert ended.returncode == -signal.SIGKILL
    uuid = tracked_run(folder).uuid
    wait(lambda: run_data(folder, uuid)["status"] == "failed")
    assert statuses(folder)[-1] == ("failed", KILLED)


STARTING = """
import subprocess, sys

class Starting:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])

    def push(self, run):
        (run.folder / "pid.txt").write_text(f"{self.process.pid}")

class Mine:
    def __init__(self, name):
        self.name = name

    def push(self, run):
        (run.folder / self.name).write_text(run.status)
"""


def test_a_run_that_a_process_follows_with_trackers_of_which_one_starts_another(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child inherits the follower's output and runs for an hour; nobody waits for it."""
    (tmp_path / "users_trackers.py").write_text(STARTING)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "file.yml").write_text(
        f"{EXPERIMENT}\ntracker: ['users_trackers:Starting', {{kind: 'users_trackers:Mine', name: told.txt}}]"
    )
    experiment = load(tmp_path / "file.yml")[0]
    (folder / "experiment.yml").write_text(to_yaml(experiment.model_dump()))
    with tracked(folder, experiment) as tracking:
        logging.getLogger("axonrl").warning("something is odd")
        tracking.outputs({"episodes": 7})
        wait((folder / "pid.txt").exists)
    os.kill(int((folder / "pid.txt").read_text()), signal.SIGKILL)  # it is still there
    assert (folder / "told.txt").read_text() == "succeeded"
    run = tracked_run(folder)
    assert (run.name, len(run.uuid)) == ("tried", 32)
    inputs = {"rate": 0.5, "agent.params.learning_rate": 0.5, "environment.id": "CartPole-v1", "seed": 3}
    assert run.inputs.items() >= inputs.items()
    assert not [name for name in run.inputs if name.startswith(("params", "tracker", "submit"))]
    assert statuses(folder) == [("created", ""), ("succeeded", "")]
    assert run.lines[0].text == "something is odd"
    data = run_data(folder, run.uuid)
    assert (data["status"], data["outputs"]) == ("succeeded", {"episodes": 7})


def test_which_trackers_a_run_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(section: str) -> list[str]:
        file = tmp_path / "file.yml"
        file.write_text(f"{EXPERIMENT}\n{section}")
        return [name for name, _ in make_trackers(choices(load(file)[0]))]

    there = "tracker: {host: 'http://there:8000'}"
    assert names("") == names("tracker: {project: me/rl}") == []
    assert names(there) == ["polyaxon at http://there:8000"]
    monkeypatch.setenv("POLYAXON_HOST", "http://here:8000")
    assert names("") == names("tracker: {project: me/rl}") == ["polyaxon at http://here:8000"]
    assert names("tracker: [mlflow, {host: 'http://there:8000'}]") == ["mlflow", "polyaxon at http://there:8000"]
    monkeypatch.setenv("POLYAXON_RUN_INSTANCE", f"me.rl.runs.{UUID}")  # where it was submitted
    assert names(there) == ["polyaxon at http://here:8000"]
    monkeypatch.delenv("POLYAXON_HOST")
    assert names(there) == ["polyaxon at http://there:8000"]
    monkeypatch.setenv("POLYAXON_IS_OFFLINE", "true")
    assert names(there) == []
