"""``axonrl sync`` of several runs: one that cannot be synced stops no other, and each is told of in a line."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from axonrl.experiments.commands.cli import main
from axonrl.experiments.tracking.follower import LOCK
from axonrl.experiments.tracking.journal import JOURNAL, Journal
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.tests.experiments.sharing import tracked_run

UUID = "0123456789abcdef0123456789abcdef"
NOWHERE = "http://127.0.0.1:9"
EXPERIMENT = """\
name: tried
environment: {id: CartPole-v1}
agent: {model_fn: dqn}
"""
TRACKER = """\
class Mine:
    def __init__(self, fails=False):
        if fails:
            raise RuntimeError("its service is down")

    def push(self, run):
        (run.folder / "told.txt").write_text(run.status)
"""
MINE = "tracker: 'users_sync_tracker:Mine'\n"
MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(workplace: Path) -> MakeRun:
    """Makes the folder of a run that has succeeded, whose tracker is one of the user's; or as the section says."""
    (workplace / "users_sync_tracker.py").write_text(TRACKER)

    def make(name: str, section: str = MINE) -> Path:
        folder = Path("runs") / name
        folder.mkdir(parents=True)
        (folder / "experiment.yml").write_text(EXPERIMENT + section)
        journal = Journal(folder)
        journal.write(run={"uuid": UUID, "name": "tried", "description": "", "inputs": {}})
        journal.status("created")
        journal.status("succeeded")
        journal.close()
        return folder

    return make


def test_a_folder_that_cannot_be_synced_stops_no_other(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    first = make_run("a")
    (first.parent / "b").mkdir()
    (first.parent / "c").write_text("a file")
    (make_run("d") / "journal.jsonl").unlink()
    going_on = make_run("e")
    (make_run("f") / "starts.json").write_text("{}")
    (make_run("g") / LOCK).mkdir()
    make_run("h", "tracker: {kind: 'users_sync_tracker:Mine', fails: true}\n")
    make_run("i", "")
    with (make_run("k") / JOURNAL).open("a") as file:
        file.write('{"time": 1e300, "log": "in a distant future"}\n')
    last = make_run("j")
    with FileLock(str(going_on / LOCK)):
        assert main(["sync", *(f"runs/{name}" for name in "abcdefghikj")]) == 2
    told = capsys.readouterr()
    tracker = "users_sync_tracker:Mine"
    assert told.out == f"runs/a: {tracker} is up to date\nruns/j: {tracker} is up to date\n"
    assert told.err.splitlines() == [
        "axonrl: error: Folder runs/b is not a run folder: experiment.yml is missing.",
        "axonrl: error: Folder runs/c is a file, not a run folder.",
        "axonrl: error: Run folder runs/d was not tracked: journal.jsonl is missing.",
        "axonrl: error: Run folder runs/e is in use by a running training. Sync it later.",
        "axonrl: error: runs/f/starts.json: its content must be a list, got {}",
        f"axonrl: error: {Path('runs/g/tracking.lock').absolute()}: Is a directory",
        "axonrl: runs/h: a tracker cannot be created: RuntimeError: its service is down (users_sync_tracker.py:4,"
        " in __init__)",
        "axonrl: error: Run folder runs/i has no tracker to sync with. Use --host, or set POLYAXON_HOST, for a Polyaxon"
        " server.",
        "axonrl: error: runs/k: OverflowError: timestamp out of range for platform time_t",
    ]
    assert (first / "told.txt").read_text() == (last / "told.txt").read_text() == "succeeded"


def test_a_run_of_many_that_still_trains_is_not_called_killed(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a server no process follows its journal, and no lock of trackers is held."""
    folder = make_run("many/seed-0")
    (folder.parent / "seeds.yml").write_text(EXPERIMENT)
    before = (folder / JOURNAL).read_text().splitlines()[:-1]
    (folder / JOURNAL).write_text("\n".join([*before, '{"time": 3.0, "status": "running", "message": ""}', ""]))
    for locked in (folder, folder.parent):  # it trains; its last policy is evaluated
        with CheckpointStore(locked).lock():
            assert main(["sync", "runs/many"]) == 2
        why = f"{locked} is in use by another writer (process {os.getpid()})"
        assert capsys.readouterr().err == f"axonrl: error: Run folder {folder} cannot be synced now: {why}\n"
    assert tracked_run(folder).status == "running"
    assert main(["sync", "runs/many"]) == 0
    assert tracked_run(folder).status == "failed"


def test_the_exit_code_is_that_of_the_worst(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    fine, broken = str(make_run("fine")), str(make_run("broken", "tracker: 'users_sync_tracker:Yours'\n"))
    assert main(["sync", fine]) == 0
    assert main(["sync", broken, fine]) == 1
    assert main(["sync", broken, "runs/nowhere", fine]) == 2
    told = capsys.readouterr()
    assert told.out.count("runs/fine: ") == 3
    assert "runs/broken: a tracker cannot be created: tracker 'users_sync_tracker:Yours': module" in told.err


def test_a_server_that_is_named_by_hand_is_asked_also_offline(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POLYAXON_IS_OFFLINE", "true")
    folder = str(make_run("a", f"tracker: {{host: '{NOWHERE}'}}\n"))
    assert main(["sync", folder]) == 2
    assert "POLYAXON_HOST is ignored while POLYAXON_IS_OFFLINE is set" in capsys.readouterr().err
    assert main(["sync", folder, "--host", NOWHERE]) == 1
    refuses = f"{NOWHERE} cannot be reached: connection refused"
    assert capsys.readouterr().err == f"axonrl: runs/a: {refuses}\n"


def test_a_project_that_is_none_is_told_once(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sync", str(make_run("a")), str(make_run("b")), "--project", "a b/c"]) == 2
    message = "must be OWNER/NAME or NAME, of letters, digits, '_' and single '-', got 'a b/c'"
    assert capsys.readouterr().err == f"axonrl: error: --project: {message}\n"
