"""A worker without a gateway: what ends it, and what may not."""

import errno
import fcntl
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.estimators.stepper import Stepper
from axonrl.hooks.events import UpdateFacts
from axonrl.serving.hosting import agent_files
from axonrl.serving.hosting.accepted_steps import AcceptedSteps
from axonrl.serving.hosting.agent import HostedAgent, Reply
from axonrl.serving.hosting.journal import Journal
from axonrl.serving.workers import responses
from axonrl.serving.workers import worker as worker_module
from axonrl.serving.workers.messages import BEAT, encode, read, wait_for
from axonrl.serving.workers.parent_death import hung_up

from .asked import ACT, STEP, Asked, statuses, working


@pytest.fixture
def worker(programs: Path, tmp_path: Path) -> Iterator[Asked]:
    with working(tmp_path, programs) as asked:
        yield asked


def drop(worker: Asked, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an agent dropped without saving: its next request replays the journal."""

    def broken(agent: HostedAgent) -> Reply:
        raise RuntimeError("its memory cannot be trusted")

    with monkeypatch.context() as patched:
        patched.setattr(HostedAgent, "loss", broken)
        assert worker.ask(name, "loss").head["status"] == 500


def test_the_other_end_is_seen_to_be_closed_behind_what_it_has_sent() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"a")
        assert not hung_up(theirs)
        ours.close()
        assert hung_up(theirs)


def test_descriptors_may_be_large() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 1024)) as large:
        assert large.fileno() >= 1024
        assert wait_for([large], 0) == []
        assert wait_for([large], 30, writes=[large]) == []
        ours.sendall(b"a")
        assert wait_for([large, ours], 30) == [large]


def test_others_wait_for_one_long_request_however_many_agents_have_them(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    acted: list[str] = []

    def act(agent: HostedAgent, *_: object) -> Reply:
        name, began = agent._folder.path.name, time.thread_time()
        while name != "v" and time.thread_time() < began + 0.03:
            pass
        acted.append(name)
        return Reply({})

    monkeypatch.setattr(HostedAgent, "act", act)
    for name in "abcdv":
        assert statuses([worker.ask(name, do, recipe) for do in ("open", "act")]) == [200, 200]
    acted.clear()
    worker.send(*((name, "act", ACT) for _ in range(3) for name in "abcdv"))
    assert statuses([worker.answer() for _ in range(15)]) == [200] * 15
    assert acted == [*"vavbvc", *"d", *"abcd" * 2]


def test_an_agent_that_cannot_learn_fails_alone(worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses([worker.ask(name, "open", recipe) for name in "ab"]) == [200, 200]
    calls: list[AcceptedSteps] = []

    def broken(learning: AcceptedSteps) -> None:
        calls.append(learning)
        raise MemoryError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(AcceptedSteps, "_work", broken)
        assert statuses([worker.ask("a", "step", STEP)]) == [200]
        info = json.loads(worker.ask("a", "info").body)
    assert len(calls) == 1
    assert info["status"] == "failed"
    assert "MemoryError" in info["status_detail"]
    answers = [worker.ask("a", "step", STEP), worker.ask("a", "act", ACT), worker.ask("b", "step", STEP)]
    assert statuses(answers) == [409, 200, 200]
    assert json.loads(worker.ask("a", "patch", recover=True).body) == {"lost": 1}
    assert json.loads(worker.ask("a", "step", STEP).body) == {"accepted": 1, "seq": 1}


def test_a_state_may_come_in_a_file_with_either_name_of_its_size(worker: Asked, recipe: bytes, tmp_path: Path) -> None:
    worker.ask("a", "open", recipe)
    state = json.loads(worker.ask("a", "get_state", obs_size=True).body)
    assert (state["obs_size"], "state_size" in state) == (4, False)
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state))
    assert statuses([worker.ask("a", "put_state", file=str(file))]) == [200]
    file.write_text(json.dumps({**state, "state_size": 4}))
    assert statuses([worker.ask("a", "put_state", file=str(file))]) == [422]


def test_an_answer_that_no_frame_holds_is_refused(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.ask("a", "open", recipe)
    monkeypatch.setattr(responses, "MAX_BODY", 1000)
    refused = worker.ask("a", "get_state")
    assert (refused.head["status"], json.loads(refused.body)["code"]) == (413, "body_too_large")
    assert statuses([worker.ask("a", "act", ACT)]) == [200]


def test_an_agent_that_cannot_be_saved_does_not_keep_others_from_it(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        worker.ask(name, "open", recipe)
        worker.ask(name, "step", STEP)
    saved: list[HostedAgent] = []
    save = HostedAgent.save

    def failing_once(agent: HostedAgent) -> None:
        saved.append(agent)
        if len(saved) == 1:
            raise OSError("no")
        save(agent)

    monkeypatch.setattr(HostedAgent, "save", failing_once)
    assert statuses([worker.ask("", "stop")]) == [200]
    assert len(saved) == 2


@pytest.mark.parametrize(
    ("call", "number", "refused"),
    [("fdatasync", errno.EIO, (503, "unavailable")), ("write", errno.ENOSPC, (507, "storage_full"))],
)
def test_what_cannot_be_kept_is_not_acknowledged_and_is_forgotten(
    worker: Asked,
    recipe: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    refused: tuple[int, str],
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    worker.ask("a", "open", recipe)
    worker.ask("a", "step", STEP, key="first")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        for _ in range(2):
            told = worker.ask("a", "step", STEP, key="second")
            assert (told.head["status"], json.loads(told.body)["code"]) == refused
        assert worker.ask("a", "act", ACT).head["status"] == 200
        assert json.loads(worker.ask("a", "info").body)["counters"]["global_timestep"] == 1
    answers = [worker.ask("a", "step", STEP, key=key) for key in ("first", "second", "second")]
    assert [json.loads(one.body)["seq"] for one in answers] == [1, 2, 2]
    assert [one.head.get("replayed", False) for one in answers] == [True, False, True]
    known = agent_files.stored_info(tmp_path / "agents" / "a")  # what another process finds if this one is killed now
    assert known["counters"]["global_timestep"] == 2


@pytest.mark.parametrize("fails", [False, True])
def test_acts_go_on_while_steps_are_forced_to_the_disk(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Steps, also one that comes meanwhile, are answered after that, and none of them where it fails."""
    sync, begun, go = os.fdatasync, threading.Event(), threading.Event()

    def held(file: int) -> None:
        begun.set()
        assert go.wait(60)
        if fails:
            raise OSError(errno.EIO, "no")
        sync(file)

    for name in "ab":
        worker.ask(name, "open", recipe)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", held)
        worker.send(("a", "step", STEP), key="1")
        assert begun.wait(60)
        worker.send(("a", "step", STEP), key="2")
        for name in "bab":  # the last one after the second step
            assert worker.ask(name, "act", ACT).head["status"] == 200
        worker.send(("a", "info", b""))
        go.set()
        answers = [worker.answer() for _ in range(3)]
    assert statuses(answers) == ([503, 503, 200] if fails else [200] * 3)
    assert json.loads(answers[2].body)["counters"]["global_timestep"] == (0 if fails else 2)
    again = [worker.ask("a", "step", STEP, key=key) for key in "12"]
    assert [(one.head.get("replayed", False), json.loads(one.body)["seq"]) for one in again] == [
        (not fails, 1),
        (not fails, 2),
    ]


def test_acts_of_others_come_between_the_steps_of_an_agent(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, act, order = HostedAgent.step, HostedAgent.act, list[str]()

    def stepping(agent: HostedAgent, *what: Any) -> Reply:
        order.append("step")
        if len(order) == 1:
            worker.send(("b", "act", ACT))
        return step(agent, *what)

    def acting(agent: HostedAgent, *what: Any) -> Reply:
        order.append("act")
        return act(agent, *what)

    for name in "ab":
        worker.ask(name, "open", recipe)
    monkeypatch.setattr(HostedAgent, "step", stepping)
    monkeypatch.setattr(HostedAgent, "act", acting)
    worker.send(*[("a", "step", STEP)] * 5)
    assert statuses([worker.answer() for _ in range(6)]) == [200] * 6
    assert order == ["step", "act", *["step"] * 4]


def test_an_agent_without_a_whole_checkpoint_has_failed_and_can_be_removed(
    worker: Asked, recipe: bytes, tmp_path: Path
) -> None:
    folder = tmp_path / "agents" / "a"
    for do, content in (("open", recipe), ("step", STEP), ("close", b"")):
        worker.ask("a", do, content)
    for path in folder.glob("checkpoints/checkpoint-*/arrays.safetensors"):
        path.write_bytes(b"")
    refused = json.loads(worker.ask("a", "info").body)
    assert (refused["code"], str(folder) in refused["detail"]) == ("agent_failed", True)
    assert statuses([worker.ask("a", "step", STEP), worker.ask("a", "remove")]) == [409, 200]
    assert not folder.exists()


def test_a_full_disk_is_no_bug_whatever_cannot_be_written(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def code(do: str, body: bytes) -> tuple[int, str]:
        answer = worker.ask("a", do, body)
        return answer.head["status"], json.loads(answer.body).get("code", "")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", full)
        assert code("open", recipe) == (507, "storage_full")
    assert code("open", recipe) == (200, "")
    state = worker.ask("a", "get_state").body
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "set_aside", full)
        assert code("put_state", state) == (507, "storage_full")
    assert code("put_state", state) == (200, "")


@pytest.mark.parametrize("call", ["pathlib.Path.rename", "shutil.rmtree"])
def test_a_removal_is_done_when_nothing_is_left(
    worker: Asked, recipe: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def failing(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    worker.ask("a", "open", recipe)
    with monkeypatch.context() as patched:
        patched.setattr(call, failing)
        answer = worker.ask("a", "remove")
    assert (answer.head["status"], json.loads(answer.body)["code"]) == (503, "unavailable")
    assert statuses([worker.ask("a", "remove")]) == [200]
    assert list((tmp_path / "agents").iterdir()) == []


def test_waiting_requests_of_an_agent_that_is_removed_are_answered(worker: Asked, recipe: bytes) -> None:
    worker.ask("a", "open", recipe)
    frames = [("step", STEP), ("remove", b""), ("step", STEP), ("act", ACT)]
    worker.send(*(("a", do, body) for do, body in frames))
    assert statuses([worker.answer() for _ in frames]) == [200, 200, 404, 404]


def test_a_long_update_does_not_keep_others_from_learning(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, learning, acted, waited = Stepper.learn, list[Stepper](), threading.Event(), list[bool]()

    def slow(stepper: Stepper) -> UpdateFacts:
        learning.append(stepper)
        if len(learning) == 1:
            waited.append(acted.wait(60))
        return learn(stepper)

    monkeypatch.setattr(Stepper, "learn", slow)
    for name in "ab":
        worker.ask(name, "open", recipe)
        for _ in range(8):
            worker.ask(name, "step", STEP)
    assert worker.ask("b", "act", ACT).head["status"] == 200  # after its update
    assert len(set(map(id, learning))) == 2
    acted.set()
    assert worker.ask("a", "act", ACT).head["status"] == 200
    assert waited == [True]


def test_a_replay_of_long_updates_keeps_no_other_from_acting(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, acted, waited = Stepper.learn, threading.Event(), list[bool]()

    def slow(stepper: Stepper) -> UpdateFacts:
        if not waited:
            waited.append(acted.wait(60))
        return learn(stepper)

    for name in "ab":
        worker.ask(name, "open", recipe)
    for _ in range(8):
        worker.ask("a", "step", STEP)
    counters = json.loads(worker.ask("a", "info").body)["counters"]
    assert (counters["global_timestep"], counters["global_step"] > 0) == (8, True)
    drop(worker, "a", monkeypatch)
    monkeypatch.setattr(Stepper, "learn", slow)
    worker.send(("a", "info", b""))
    assert worker.ask("b", "act", ACT).head["status"] == 200
    acted.set()
    assert json.loads(worker.answer().body)["counters"] == counters
    assert waited == [True]


def test_of_several_replays_the_shortest_comes_first_and_is_not_shared(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[str] = []
    work = HostedAgent.work

    def noted(agent: HostedAgent) -> None:
        applied.append(agent._folder.path.name)
        work(agent)

    for name, steps in {"a": 12, "b": 12, "c": 2}.items():
        worker.ask(name, "open", recipe)
        assert statuses([worker.ask(name, "step", STEP) for _ in range(steps)]) == [200] * steps
        drop(worker, name, monkeypatch)
    monkeypatch.setattr(worker_module, "_TURN_SECONDS", 1e-9)  # a piece
    monkeypatch.setattr(AcceptedSteps, "next_is_long", False)  # no threads
    monkeypatch.setattr(HostedAgent, "work", noted)
    worker.send(*((name, "info", b"") for name in "abc"))
    infos = [json.loads(worker.answer().body)["counters"]["global_timestep"] for _ in "abc"]
    assert infos == [2, 12, 12]
    assert re.fullmatch("a+ba+c+a+b+", "".join(applied))


def test_a_long_update_does_not_keep_it_from_beating(
    worker: Asked, recipe: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first update of an agent, of which nobody knows how long it takes, runs beside the loop already."""
    learn = Stepper.learn

    def slow(stepper: Stepper) -> UpdateFacts:
        time.sleep(2.5)
        return learn(stepper)

    monkeypatch.setattr(Stepper, "learn", slow)
    worker.ask("a", "open", recipe)
    for _ in range(8):
        worker.ask("a", "step", STEP)
    worker.connection.sendall(encode({"id": 99, "agent": "a", "do": "act"}, ACT))
    frames = [read(worker.connection) for _ in range(2)]
    assert [frame.head["id"] for frame in frames if frame is not None] == [BEAT, BEAT]
    assert worker.answer().head == {"id": 99, "status": 200}
