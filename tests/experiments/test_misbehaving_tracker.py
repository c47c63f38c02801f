"""Servers that refuse, hang, fail and lie: the run goes on, the user is told, nothing is lost or comes twice."""

import copy
import gc
import json
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from axonrl.experiments.child_process import Message
from axonrl.experiments.commands.sync import sync_all, sync_run
from axonrl.experiments.config.schema import load
from axonrl.experiments.errors import ExperimentError, RunFolderError
from axonrl.experiments.polyaxon.client import PolyaxonError
from axonrl.experiments.polyaxon.offline import OfflineRun, run_path
from axonrl.experiments.polyaxon.tracker import PolyaxonServer as Tracker
from axonrl.experiments.tracking import follower, producer
from axonrl.experiments.tracking.follower import Pusher, follow
from axonrl.experiments.tracking.journal import Journal, TrackedRun
from axonrl.experiments.tracking.producer import tracked
from axonrl.experiments.tracking.trackers import choices
from axonrl.tests.experiments.fakes import EXPERIMENT
from axonrl.tests.experiments.sharing import files, tracked_run, wait
from axonrl.tests.misbehaving_server import BREAKS_OFF, GARBAGE, PASSES_ON, REFUSES, SLOW, MisbehavingServer, Request
from axonrl.tests.raising import raised

TOKEN = "a-secret-token-0123456789"
# Polyaxon's client leaves a file open when its upload fails.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning"
)
CONTINUES = follower.CONTINUES


@pytest.fixture(autouse=True)
def is_tracked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("POLYAXON_NO_OP")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything at short intervals; and no thread goes on after the test, as none outlives the follower's process."""
    for name in ("LOCAL_SECS", "PUSH_SECS", "PUSH_PAUSE", "RETRY_SECS"):
        monkeypatch.setattr(follower, name, 0.05)
    monkeypatch.setattr(follower, "EXIT_SECS", 0.5)
    yield
    for thread in threading.enumerate():
        if isinstance(thread, Pusher):
            thread.done = True


@pytest.fixture
def misbehaving(monkeypatch: pytest.MonkeyPatch) -> Iterator[MisbehavingServer]:
    """A server that refuses connections, for now; runs are tracked there."""
    with MisbehavingServer(REFUSES) as server:
        monkeypatch.setenv("POLYAXON_HOST", server.host)
        yield server
    gc.collect()  # now, where the warning of which is known


class Run:
    """A run whose journal the test writes, instead of a training."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "experiment.yml").write_text(EXPERIMENT)
        (folder / "best.safetensors").write_bytes(b"weights")
        self.folder, self.uuid = folder, uuid.uuid4().hex
        self.journal = Journal(folder)
        self.journal.write(run={"uuid": self.uuid, "name": "pole", "description": "", "inputs": {"seed": 3}})
        self.journal.status("created")
        self.journal.status("running")
        self.points = 0
        self.write_points(10)

    def write_points(self, number: int) -> None:
        for _ in range(number):
            self.points += 1
            self.journal.write(step=self.points, metrics={"rollout/return": self.points, "train/loss": 0.5})

    def end(self) -> None:
        self.journal.write(log="the last line")
        self.journal.write(outputs={"episodes": self.points})
        self.journal.status("succeeded")
        self.journal.close()

    def read(self) -> TrackedRun:
        return tracked_run(self.folder)

    def files(self) -> dict[str, bytes]:
        """The Polyaxon run in the run folder."""
        return files(self.folder / "polyaxon" / "runs" / self.uuid)

    def is_whole(self) -> bool:
        """Is everything in it, once?"""
        data = json.loads(self.files()["run.plx.json"])
        steps = {name: [row.split("|")[0] for row in self.rows(name)] for name in ("rollout__return", "train__loss")}
        wanted = [str(step + 1) for step in range(self.points)]
        return data["status"] == "succeeded" and steps == {"rollout__return": wanted, "train__loss": wanted}

    def rows(self, name: str) -> list[str]:
        return self.files()[f"events/metric/{name}.plx"].decode().splitlines()[1:]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path / "run")
    yield run
    run.journal.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> TrackedRun:
    """A run whose files are in its folder, ready to be pushed; not to be changed."""
    run = Run(tmp_path_factory.mktemp("written") / "run")
    run.journal.close()
    OfflineRun().write(run.read())
    return run.read()


class Following:
    """Follows a run in a thread of this process; the texts of its messages are in ``said``."""

    def __init__(self, run: Run) -> None:
        self.said: list[str] = []
        self._ended = threading.Event()
        chosen = choices(load(run.folder / "experiment.yml")[0])
        self._thread = threading.Thread(target=follow, args=(run.folder, chosen, self._ended, self._tell), daemon=True)
        self._thread.start()

    def _tell(self, message: Message) -> None:
        assert message.type == "warning"
        self.said.append(message.text)

    def wait(self, number: int) -> None:
        """Until so many messages have come."""
        wait(lambda: len(self.said) == number)

    def end(self) -> None:
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def assert_on_server(server: MisbehavingServer, run: Run) -> None:
    """The server has the files byte for byte, every status once, and all of the lineage."""
    assert run.is_whole()
    held = server.behind.runs[run.uuid]
    assert held.files == run.files()
    assert [one["type"] for one in held.statuses] == ["created", "running", "succeeded"]
    assert sorted(held.lineage) == ["best.safetensors", "experiment.yml", "rollout__return", "train__loss"]
    assert (held.data["outputs"]["episodes"], held.data["inputs"]) == (run.points, {"seed": 3})


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        (REFUSES, "cannot be reached: connection refused"),
        (200, "is not a Polyaxon server, by its answers"),
        (404, "can neither find nor create the project default/axonrl"),
        (GARBAGE, "does not speak HTTP"),
        (BREAKS_OFF, "closed the connection"),
    ],
)
def test_what_a_push_reports(
    written: TrackedRun, misbehaving: MisbehavingServer, behaviour: str | int, text: str
) -> None:
    misbehaving.behaviour = behaviour
    assert str(raised(PolyaxonError, Tracker(misbehaving.host).push, written)) == f"{misbehaving.host} {text}"


@pytest.mark.usefixtures("quick")
def test_a_server_that_comes_goes_and_comes_again(
    run: Run, misbehaving: MisbehavingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "EXIT_SECS", 30.0)
    following = Following(run)
    following.wait(1)
    for number, behaviour in ((2, PASSES_ON), (3, 503), (4, REFUSES)):
        misbehaving.behaviour = behaviour
        run.write_points(5)
        following.wait(number)
    misbehaving.behaviour = 503
    asked = len(misbehaving.requests)
    wait(lambda: len(misbehaving.requests) > asked + 2)
    misbehaving.behaviour = PASSES_ON
    following.wait(5)
    run.end()
    following.end()
    refuses = f"{misbehaving.host} cannot be reached: connection refused; {CONTINUES}"
    fails = f"{misbehaving.host} answers 503 (Service Unavailable); {CONTINUES}"
    works = f"tracker polyaxon at {misbehaving.host}: works again"
    assert following.said == [refuses, works, fails, refuses, works]  # each trouble once
    assert_on_server(misbehaving, run)


def test_every_request_arrives_and_its_answer_is_lost(run: Run, misbehaving: MisbehavingServer) -> None:
    misbehaving.behaviour = PASSES_ON
    seen = set[tuple[str, str, bytes]]()

    def is_new(request: Request) -> bool:
        """Has the same not been asked before, apart from times, boundaries and the names of temporary folders?"""
        kind, body = request.headers.get("Content-Type", ""), request.body
        if kind == "application/json":
            body = re.sub(rb'"heartbeat":[\d.]+', b"", body)
        elif kind:
            boundary = kind.partition("boundary=")[2].encode()
            body = re.sub(rb'filename="[^"]*/', b"", body.replace(boundary, b""))
        key = (request.method, request.path, body)
        found = key not in seen
        seen.add(key)
        return found

    misbehaving.cuts = is_new
    tracker, failures = Tracker(misbehaving.host), list[str]()

    def arrives() -> bool:
        try:
            tracker.push(run.read())
        except PolyaxonError as error:
            failures.append(str(error))
            return False
        return True

    OfflineRun().write(run.read())
    assert any(arrives() for _ in range(30))
    run.write_points(5)
    run.end()
    OfflineRun().write(run.read())
    assert any(arrives() for _ in range(30))
    assert failures == [f"{misbehaving.host} closed the connection"] * len(seen)
    asked = {(method, path.rpartition("/")[2]) for method, path, _ in seen}
    posted = ("create", "sync", "statuses", "artifact", "artifacts")
    assert asked >= {("PATCH", run.uuid), *(("POST", name) for name in posted)}
    assert_on_server(misbehaving, run)


def test_syncing_sends_the_rest_and_again_changes_nothing(
    run: Run, misbehaving: MisbehavingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run.end()
    assert sync_all([run.folder]) == 1
    refuses = f"{misbehaving.host} cannot be reached: connection refused"
    assert capsys.readouterr() == ("", f"axonrl: {run.folder}: {refuses}\n")
    misbehaving.behaviour = PASSES_ON
    misbehaving.cuts = lambda request: request.path.endswith("/artifact")  # a part has arrived when this one fails
    assert sync_all([run.folder]) == 1
    assert capsys.readouterr() == ("", f"axonrl: {run.folder}: {misbehaving.host} closed the connection\n")
    misbehaving.cuts = lambda request: False
    assert sync_all([run.folder]) == 0
    assert_on_server(misbehaving, run)
    before = copy.deepcopy(vars(misbehaving.behind.runs[run.uuid]))
    assert sync_all([run.folder]) == 0
    after = vars(misbehaving.behind.runs[run.uuid])
    for state in (before, after):
        assert state["data"]["meta_info"].pop("heartbeat") > 0
    assert after == before


@pytest.fixture
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that follows a run has a second after its end, and is waited for, however busy the machine is."""
    monkeypatch.setattr(producer, "EXIT_SECS", 1.0)
    monkeypatch.setattr(producer, "MARGIN_SECS", 120.0)


def track(folder: Path, until: Callable[[], object]) -> Path:
    """Track a run, as the command line does, until something has happened; its folder."""
    folder = folder / "run"
    folder.mkdir()
    (folder / "experiment.yml").write_text(EXPERIMENT)
    with tracked(folder, load(folder / "experiment.yml")[0]) as tracking:
        wait(until)
        tracking.outputs({"episodes": 7})
    return folder


@pytest.mark.parametrize(
    ("token", "fits"), [(f" {TOKEN}\n", True), (f"{TOKEN}\nX-Other: header", False), (f"é{TOKEN}", False)]
)
def test_a_token_without_the_end_of_its_line_is_sent_and_what_is_none_not_quoted(
    token: str, fits: bool, written: TrackedRun, misbehaving: MisbehavingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYAXON_AUTH_TOKEN", token)
    misbehaving.behaviour = 500
    none = "The token for Polyaxon is invalid: it contains spaces or non-ASCII characters."
    said = f"{misbehaving.host} answers 500 (Internal Server Error)" if fits else none
    with pytest.raises(PolyaxonError, match=f"^{re.escape(said)}$"):
        Tracker(misbehaving.host).push(written)
    sent = [request.headers["Authorization"].lower() for request in misbehaving.requests]
    assert sent == ([f"token {TOKEN}"] if fits else [])


def rest_of(server: MisbehavingServer, folder: Path) -> str:
    return f"not everything has reached polyaxon at {server.host}; axonrl sync {folder} sends the rest"


def test_a_server_that_is_too_slow_is_left_behind_when_the_run_ends(
    tmp_path: Path, misbehaving: MisbehavingServer, quick_end: None, caplog: pytest.LogCaptureFixture
) -> None:
    misbehaving.behaviour = SLOW  # a byte now and then
    folder = track(tmp_path, lambda: misbehaving.requests)
    assert caplog.messages[-1] == rest_of(misbehaving, folder)
    (path,) = folder.glob("polyaxon/runs/*/run.plx.json")
    data = json.loads(path.read_bytes())
    assert (data["status"], data["outputs"]) == ("succeeded", {"episodes": 7})


def test_what_trackers_may_delay_the_exit_of_a_run() -> None:
    assert follower.EXIT_SECS + producer.MARGIN_SECS < 10


def test_a_run_whose_server_fails_keeps_its_token_to_itself(
    tmp_path: Path,
    misbehaving: MisbehavingServer,
    quick_end: None,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "axonrl")
    monkeypatch.setenv("POLYAXON_DEBUG", "true")  # by which Polyaxon's client prints every header
    (tmp_path / ".polyaxon").mkdir()
    (tmp_path / ".polyaxon" / ".auth").write_text(json.dumps({"username": "me", "token": TOKEN}))
    misbehaving.behaviour = 500
    folder = track(tmp_path, lambda: caplog.messages)
    assert {request.headers["Authorization"].lower() for request in misbehaving.requests} == {f"token {TOKEN}"}
    assert caplog.messages[0] == f"{misbehaving.host} answers 500 (Internal Server Error); {CONTINUES}"
    assert caplog.messages[1:] == [rest_of(misbehaving, folder)]
    out, err = capfd.readouterr()
    assert TOKEN not in out + err + caplog.text
    assert TOKEN.encode() not in b"\n".join(files(folder).values())


def test_an_address_that_may_hold_a_password_is_refused_and_not_quoted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the rules of ``server_address``: from an option and the environment."""
    address = "https://me:hunter2@example.com"
    message = "must be an address without user, password or query"
    caught = raised(ExperimentError, sync_all, [run.folder], address, match=f"^--host: {message}")
    assert "hunter2" not in str(caught)
    monkeypatch.setenv("POLYAXON_HOST", address)
    (run.folder / "journal.jsonl").unlink()
    begun = tracked(run.folder, load(run.folder / "experiment.yml")[0])
    caught = raised(ExperimentError, begun.__enter__, match=f"^POLYAXON_HOST: {message}")
    assert "hunter2" not in str(caught)
    assert not (run.folder / "journal.jsonl").exists()


@pytest.mark.usefixtures("quick")
def test_a_full_disk_while_a_run_is_followed(
    run: Run, misbehaving: MisbehavingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first metric is written, the second is not; nothing is shown until both are written anew."""
    monkeypatch.setattr(follower, "EXIT_SECS", 30.0)
    misbehaving.behaviour = PASSES_ON
    full = fill_disk_of(run, tmp_path)
    following = Following(run)
    following.wait(2)
    place, host = f"the Polyaxon run in {run.folder}", misbehaving.host
    assert f"{place} cannot be written (No space left on device); {CONTINUES}" in following.said
    assert f"{host} waits: {place} is incomplete; {CONTINUES}" in following.said
    assert misbehaving.requests == []  # what is not whole is not shown
    run.write_points(5)
    full.unlink()
    following.wait(4)
    run.end()
    following.end()
    assert sorted(following.said[2:]) == sorted(
        [f"{place} is written again", f"tracker polyaxon at {host}: works again"]
    )
    assert_on_server(misbehaving, run)


def fill_disk_of(run: Run, folder: Path) -> Path:
    """Have a metric of the Polyaxon run lie on a full disk, until what is returned is removed."""
    disk = folder / "disk"
    (disk / "metric").mkdir(parents=True)
    (disk / "metric" / "train__loss.plx").symlink_to("/dev/full")
    path = run_path(run.read())
    path.mkdir(parents=True)
    (path / "events").symlink_to(disk)
    return path / "events"


@pytest.mark.usefixtures("quick")
def test_a_disk_that_stays_full_until_the_run_is_synced(run: Run, tmp_path: Path) -> None:
    full = fill_disk_of(run, tmp_path)
    following = Following(run)
    run.end()
    following.end()
    place = f"the Polyaxon run in {run.folder}"
    assert following.said == [
        f"{place} cannot be written (No space left on device); {CONTINUES}",
        f"{place} is incomplete; axonrl sync {run.folder} writes the rest",
    ]
    full.unlink()
    raised(RunFolderError, sync_run, run.folder, match="has no tracker to sync with")
    assert run.is_whole()
