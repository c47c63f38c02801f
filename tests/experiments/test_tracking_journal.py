"""The journal and messages: what is written into it, and what a run is that is read from it."""

import errno
import json
import logging
import math
import os
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.child_process import parse
from axonrl.experiments.running.folder import read_experiment
from axonrl.experiments.tracking.history import write_journal
from axonrl.experiments.tracking.journal import JOURNAL, Journal, JournalHandler, JournalHook, Point, TrackedRun
from axonrl.hooks import Hooks
from axonrl.hooks.events import BeginFacts, EndFacts, UpdateFacts
from axonrl.run_dir.history import Evaluation, rewrite
from axonrl.tests.experiments.made_runs import make_run
from axonrl.tests.experiments.sharing import tracked_run

BEGIN = BeginFacts(1, False, {})
END = EndFacts("done", None, 1.0)
RUN = {"uuid": "0" * 32, "name": "tried", "description": "a try", "inputs": {"seed": 1}}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are written at the seconds 1, 2, 3 ..."""
    seconds = iter(range(1, 10_000))
    monkeypatch.setattr("time.time", lambda: float(next(seconds)))


def entries(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]


@pytest.mark.usefixtures("clock")
def test_what_a_session_measures(session: Any, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    hook = JournalHook(journal, every_steps=2)
    hooks = Hooks([hook])
    hook.begin(session, BEGIN)
    session.episode(hooks)
    for step in (1, 2, 3):
        session.global_step = step
        hook.after_update(session, UpdateFacts(0.5 * step, {"q_mean": 7.0}))
    session.evaluated(hooks, 3.5)
    hook.end(session, END)
    journal.close()
    episode = {f"rollout/{name}": 1.0 for name in ("return", "return_mean", "return_min", "return_max")}
    episode |= {"rollout/length": 2.0, "rollout/length_mean": 2.0}
    written = entries(tmp_path)
    assert written[:3] == [
        {"time": 1.0, "cut": 0, "update": 0, "episode": 0},
        {"time": 2.0, "status": "running", "message": ""},
        {"time": 3.0, "step": 2, "episode": 1, "metrics": episode},
    ]
    assert (written[3]["step"], written[3]["update"]) == (2, 2)
    update = written[3]["metrics"]
    assert (update.pop("train/loss"), update.pop("train/q_mean"), update.pop("train/updates")) == (1.0, 7.0, 2.0)
    assert all(name.startswith("time/") and math.isfinite(value) for name, value in update.items())
    assert written[4]["metrics"]["eval/return_mean"] == 3.5
    assert len(written) == 5


@pytest.mark.usefixtures("clock")
def test_a_run_is_what_its_journal_says(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(run=RUN)
    journal.status("created")
    run = tracked_run(tmp_path)
    assert {name: getattr(run, name) for name in RUN} == RUN
    assert run.status == "created"
    assert not run.read()
    journal.write(step=4, metrics={"a/b": 1.5, "c": math.nan})
    journal.write(log="a line")
    journal.write(outputs={"episodes": 3})
    journal.status("failed", "it broke")
    assert run.read()
    first, second = run.points
    assert first == Point(3.0, 4, "a/b", 1.5)
    assert (second.name, math.isnan(second.value)) == ("c", True)
    assert (run.lines, run.outputs) == ([(4.0, "a line")], {"episodes": 3})
    assert run.statuses == [(2.0, "created", ""), (6.0, "failed", "it broke")]
    assert run.cuts == 0


def test_what_came_after_the_point_of_resuming_comes_once(tmp_path: Path) -> None:
    """And where nothing did, there is no cut."""
    journal = Journal(tmp_path)
    for step, episode in ((1, 1), (2, 2), (2, 3), (3, 4)):  # two environments ended their episodes on the second step
        journal.write(step=step, episode=episode, metrics={"return": episode})
    journal.write(step=2, metrics={"evaluation": 20.0})
    journal.write(cut=3, update=0, episode=4)
    run = tracked_run(tmp_path)
    assert (len(run.points), run.cuts) == (5, 0)
    journal.write(cut=2, update=0, episode=3)
    journal.write(step=2, metrics={"evaluation": 20.0, "late": 5.0})  # measured again where the session begins
    for step, episode in ((3, 4), (3, 5), (4, 6)):
        journal.write(step=step, episode=episode, metrics={"return": episode})
    for one in (run, tracked_run(tmp_path)):
        one.read()
        assert [(point.step, point.name, point.value) for point in one.points] == [
            (1, "return", 1),
            (2, "return", 2),
            (2, "return", 3),
            (2, "evaluation", 20),
            (2, "late", 5),
            (3, "return", 4),
            (3, "return", 5),
            (4, "return", 6),
        ]
        assert one.cuts == 1


def test_updates_that_a_vector_step_owes_when_the_run_is_cut(tmp_path: Path) -> None:
    """Four environments, four updates each vector step; a limit stopped the run after the second of them."""
    journal = Journal(tmp_path)
    for update in (1, 2, 3):
        journal.write(step=4, update=update, metrics={"loss": update})
    journal.write(cut=4, update=2, episode=0)
    for update in (3, 4):
        journal.write(step=4, update=update, metrics={"loss": update})
    assert [point.value for point in tracked_run(tmp_path).points] == [1, 2, 3, 4]


@pytest.mark.parametrize("torn", [b'{"time": 1.0, "sta', b"\x00\xff\n", b'{"time": 1, "metrics": {"a": 1}}\n'])
def test_a_line_that_a_kill_cut_short_harms_no_other(tmp_path: Path, torn: bytes) -> None:
    (tmp_path / JOURNAL).write_bytes(b'{"time": 1.0, "log": "before"}\n' + torn)
    journal = Journal(tmp_path)
    journal.write(log="after")
    assert [line.text for line in tracked_run(tmp_path).lines] == ["before", "after"]


def test_half_a_line_waits_for_the_other_half(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    path.write_bytes(b'{"time": 1.0, "log": "wh')
    run = TrackedRun(tmp_path)
    assert not run.read()
    with path.open("ab") as file:
        file.write(b'ole"}\n')
    assert run.read()
    assert run.lines == [(1.0, "whole")]


def test_a_full_disk_hurts_nothing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    room, write = 50, os.write

    def limited(file: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(file, data[:room])
        room -= written
        return written

    monkeypatch.setattr("os.write", limited)
    journal = Journal(tmp_path)
    logging.getLogger("axonrl").addHandler(handler := JournalHandler(journal))
    with caplog.at_level(logging.INFO, "axonrl"):
        for number in range(5):
            journal.write(log=f"line {number}")
    logging.getLogger("axonrl").removeHandler(handler)
    (message,) = caplog.messages
    assert message == f"{tmp_path / JOURNAL} cannot be written (No space left on device); training continues"
    assert len(tracked_run(tmp_path).lines) < 5

    def lines() -> list[str]:
        return [line.text for line in tracked_run(tmp_path).lines if line.text.startswith("line")]

    room = 10**6
    journal.write(log="line 5")
    assert lines() == [f"line {number}" for number in range(6)]
    room = 0
    journal.write(log="line 6")
    room = 10**6
    journal.close()  # where it is tried again
    assert lines() == [f"line {number}" for number in range(7)]
    room = 0
    journal = Journal(tmp_path)
    journal.write(log="line 7")
    journal.close()
    assert caplog.messages[-1] == f"{tmp_path / JOURNAL} is missing its last lines: the disk was full"


def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / JOURNAL).mkdir()
    journal = Journal(tmp_path)
    journal.write(log="nowhere to go")
    journal.close()
    (message,) = caplog.messages
    assert "cannot be written (Is a directory); training continues" in message


def test_a_message_is_a_line_of_json() -> None:
    assert parse('{"type": "stop", "text": "stopped at\\nthe server"}') == {
        "type": "stop",
        "text": "stopped at\nthe server",
    }


@pytest.mark.parametrize("line", ["stop: a library", "[3]", "[" * 100_000])
def test_anything_else_is_a_warning(line: str) -> None:
    assert parse(line) == {"type": "warning", "text": line}


def test_a_journal_from_history_has_the_positions_of_a_session(tmp_path: Path) -> None:
    """A hundred updates without timesteps, thirty timesteps, fifty such updates, and ten timesteps."""
    folder = make_run(tmp_path / "one", 3, [1.0, 2.0, 3.0, 4.0], python=True)
    rows = [
        Evaluation(at, 9.0, 0.0, 10.0, 5, offline_steps=offline) for at, offline in ((0, 100), (30, 100), (30, 150))
    ]
    rewrite(folder / "evaluations.csv", Evaluation._fields, rows)
    write_journal(folder, read_experiment(folder))
    points = tracked_run(folder).points
    assert [point.step for point in points if point.name == "rollout/return"] == [110, 120, 130, 190]
    assert [point.step for point in points if point.name == "eval/return_mean"] == [100, 130, 180]
    assert points == sorted(points, key=lambda point: point.step)
