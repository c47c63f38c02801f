"""A worker's agents over time: when they are saved and put away, how they come back, what waits for what."""

import collections
import json
import mmap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from filelock import FileLock

from axonrl.estimators.stepper import Stepper
from axonrl.hooks.events import UpdateFacts
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.serving.hosting import accepted_steps, agent_files, durable
from axonrl.serving.hosting.accepted_steps import AcceptedSteps
from axonrl.serving.hosting.agent_store import JOURNAL
from axonrl.serving.hosting.journal import segments_of
from axonrl.serving.workers import slots, worker
from axonrl.serving.workers.slots import Slots
from axonrl.tests.experiments.sharing import wait

from .asked import ACT, STEP, Asked, statuses, working
from .client_stub import Clock
from .hosted import DQN, Built, data

Started = Callable[..., Asked]


@pytest.fixture
def started(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """Starts a worker that looks after its agents every 10 ms, and not every second."""
    monkeypatch.setattr(worker, "_HOUSEKEEPING_SECONDS", 0.01)
    running = []

    def start(**settings: Any) -> Asked:
        running.append(working(tmp_path, programs, **settings))
        return running[-1].__enter__()

    yield start
    for one in running:
        one.__exit__(None, None, None)


class Houses:
    """Counts how often a worker has looked after its agents; ``later`` is by how much its clock is ahead there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept, self.later = 0, 0.0
        keep = Slots.keep_house

        def keep_house(agents: Slots, now: float) -> None:
            keep(agents, now + self.later)
            self.kept += 1

        monkeypatch.setattr(Slots, "keep_house", keep_house)

    def pass_by(self) -> None:
        """Wait until it has looked after all of them, once at least."""
        before = self.kept
        wait(lambda: self.kept >= before + 2, 30)


@pytest.fixture
def houses(monkeypatch: pytest.MonkeyPatch) -> Houses:
    return Houses(monkeypatch)


def steps(begin: int, end: int) -> bytes:
    return json.dumps({"steps": [data(k) for k in range(begin, end)]}).encode()


def state_of(asked: Asked, name: str) -> tuple[bytes, bytes]:
    """How an agent acts, and everything that it has learned."""
    return asked.ask(name, "act", ACT).body, asked.ask(name, "get_state").body


def checkpoints(folder: Path) -> list[int]:
    """The number of the last request in each."""
    store = CheckpointStore(folder)
    return [store.about(index)[0]["number"] for index in store.indices()]


def test_an_agent_that_nobody_asks_for_is_put_away_and_comes_back_the_same(
    started: Started, recipe: bytes, houses: Houses, tmp_path: Path
) -> None:
    asked = started()
    asked.ask("a", "open", recipe)
    asked.ask("a", "steps", steps(0, 30))
    before = state_of(asked, "a")
    houses.later = 890.0
    houses.pass_by()
    assert asked.tally()["loaded_agents"] == 1
    houses.later = 901.0  # 15 minutes, if nothing else is said
    wait(lambda: asked.tally()["loaded_agents"] == 0, 30)
    told = asked.tally()
    assert (told["evictions_total"], told["openings_total"]) == (1, 1)
    assert (told["updates_total"], told["journal_syncs_total"]) == (23, 1)  # from the eighth step on
    assert told["journal_sync_seconds_total"] > 0
    assert checkpoints(tmp_path / "agents" / "a") == [0, 1]  # of requests: nothing of the journal is needed
    with FileLock(tmp_path / "agents" / "a" / "lock", timeout=0):
        pass
    houses.later = 0.0
    assert state_of(asked, "a") == before
    assert asked.tally()["openings_total"] == 2


def test_above_its_memory_the_agents_unused_longest_are_put_away(
    started: Started, recipe: bytes, houses: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = collections.deque([1_000])
    monkeypatch.setattr(slots, "resident_bytes", lambda: measured.popleft() if len(measured) > 1 else measured[0])
    monkeypatch.setattr(slots, "gc", mock.Mock())  # it takes a second where TensorFlow is loaded, as it is here
    asked, names = started(memory=1_000), "abcdefgh"
    for name in names:
        asked.ask(name, "open", recipe)
    acts = {name: asked.ask(name, "act", ACT).body for name in "hgfedcba"}
    houses.pass_by()
    assert asked.tally()["loaded_agents"] == 8
    asked.ask("h", "info", wake=False)  # who looks at an agent does not use it
    measured.extend([1_001, 1_000])
    wait(lambda: len(measured) == 1, 30)
    houses.pass_by()
    there = ["executor" in json.loads(asked.ask(name, "info", wake=False).body) for name in names]
    assert there == [True] * 6 + [False] * 2  # a quarter of them: h and g had acted first
    assert asked.ask("h", "act", ACT).body == acts["h"]
    measured.append(1_001)  # and so it stays
    wait(lambda: asked.tally()["loaded_agents"] == 1, 30)
    houses.pass_by()
    assert asked.tally()["loaded_agents"] == 1
    assert "executor" in json.loads(asked.ask("h", "info", wake=False).body)


def test_a_worker_measures_the_memory_that_it_takes_and_not_what_it_may_take() -> None:
    size = 64 << 20
    before = slots.resident_bytes()
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as mapped:
        assert slots.resident_bytes() - before < size / 2
        mapped.write(b"x" * size)
        assert slots.resident_bytes() - before > size / 2


def test_a_checkpoint_is_written_after_so_many_steps(
    started: Started, recipe: bytes, houses: Houses, tmp_path: Path
) -> None:
    asked, folder = started(checkpoint_steps=10), tmp_path / "agents" / "a"
    asked.ask("a", "open", recipe)
    for count, expected in ((9, [0]), (1, [0, 10]), (9, [0, 10]), (1, [10, 20]), (10, [20, 30])):
        for _ in range(count):
            asked.ask("a", "step", STEP)
        houses.pass_by()
        assert checkpoints(folder) == expected
    assert min(one.first for one in segments_of(folder / JOURNAL)) == 21  # what the older checkpoint lacks


def test_a_checkpoint_is_written_after_so_many_seconds_if_anything_has_changed(
    started: Started, recipe: bytes, houses: Houses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(durable, "time", clock)
    asked, folder = started(), tmp_path / "agents" / "a"
    asked.ask("a", "open", recipe)
    asked.ask("a", "step", STEP)
    for seconds, expected in ((59.0, [0]), (1.0, [0, 1]), (10_000.0, [0, 1])):
        clock.now += seconds
        houses.pass_by()
        assert checkpoints(folder) == expected
    asked.ask("a", "step", STEP)
    houses.pass_by()
    assert checkpoints(folder) == [1, 2]


def test_an_agent_that_another_server_has_is_unloaded_when_it_is_due_for_saving(
    started: Started, recipe: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It stayed in memory for 15 minutes, with a traceback in the log each second."""
    clock = Clock()
    monkeypatch.setattr(durable, "time", clock)
    asked = started()
    asked.ask("a", "open", recipe, epoch=1)
    asked.ask("a", "step", STEP, epoch=1)
    (tmp_path / "agents" / "a" / "epochs" / "2").touch()
    clock.now += 60.0
    wait(lambda: asked.tally()["loaded_agents"] == 0, 30)
    assert [one.levelname for one in caplog.records] == ["WARNING"]


def test_where_a_process_is_to_be_survived_steps_are_written_at_once_and_synced_later(
    started: Started, recipe: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_HOUSEKEEPING_SECONDS", 3600.0)
    asked = started(syncs=False)
    asked.ask("a", "open", recipe)
    for number in range(1, 6):
        assert json.loads(asked.ask("a", "step", STEP).body) == {"accepted": 1, "seq": number}
        # What another process finds if this one is killed now.
        known = agent_files.stored_info(tmp_path / "agents" / "a")
        assert known["counters"]["global_timestep"] == number
    assert asked.tally()["journal_syncs_total"] == 0
    monkeypatch.setattr(worker, "_HOUSEKEEPING_SECONDS", 0.01)
    wait(lambda: asked.tally()["journal_syncs_total"] == 1, 30)


class Updates:
    """Holds every update until it is let go, and counts those that are done. All run beside the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allowed, self.done = threading.Semaphore(0), 0
        learn = Stepper.learn

        def held(stepper: Stepper) -> UpdateFacts:
            assert self.allowed.acquire(timeout=240)
            facts = learn(stepper)
            self.done += 1
            return facts

        monkeypatch.setattr(Stepper, "learn", held)
        monkeypatch.setattr(AcceptedSteps, "next_is_long", property(lambda learning: learning.next_is_update))

    def go(self, count: int) -> None:
        """Let so many end, and wait for that."""
        wanted = self.done + count
        for _ in range(count):
            self.allowed.release()
        wait(lambda: self.done == wanted, 30)


@pytest.mark.parametrize(("freshness", "waits_for"), [("strict", 5), ("relaxed", 0)])
def test_an_act_waits_for_what_was_accepted_unless_the_agent_is_relaxed(
    started: Started, built: Built, freshness: str, waits_for: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates, asked = Updates(monkeypatch), started()
    made = built("dqn", {**DQN, "freshness": freshness}).to_json()
    asked.ask("a", "open", json.dumps(made).encode())
    assert asked.ask("a", "steps", steps(0, 12)).head["status"] == 200  # an update for each from the eighth on
    asked.send(("a", "act", ACT))
    act = asked.numbers
    for done in range(waits_for):
        assert asked.tally() != {}  # its answer comes first: the act has none yet
        assert updates.done == done
        updates.go(1)
    answered = asked.answer()
    assert (answered.head["id"], answered.head["status"], updates.done) == (act, 200, waits_for)
    if freshness == "relaxed":  # then it also goes on accepting, and acts with the weights before
        assert json.loads(asked.ask("a", "end_episode").body) == {"accepted": 0, "seq": 12}
        assert asked.ask("a", "act", ACT).body == answered.body
    for _ in range(5 - waits_for):
        updates.allowed.release()
    assert json.loads(asked.ask("a", "info").body)["counters"]["global_step"] == 5


@pytest.mark.parametrize(
    ("freshness", "accepted"),
    [("strict", 7), ("relaxed", 5)],  # relaxed: the fifth comes when exactly 2 seconds are owed
)
def test_with_seconds_of_updates_owed_steps_wait_or_are_refused(
    started: Started, built: Built, freshness: str, accepted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above 0.1 s they wait, except a relaxed agent's, as acts queue behind them; above 2 s they are refused."""
    clock = Clock()
    monkeypatch.setattr(accepted_steps, "time", clock)
    learn = Stepper.learn

    def slow(stepper: Stepper) -> UpdateFacts:
        clock.now += 0.5
        return learn(stepper)

    monkeypatch.setattr(Stepper, "learn", slow)
    asked = started()
    asked.ask("a", "open", json.dumps(built("dqn", {**DQN, "freshness": freshness}).to_json()).encode())
    asked.ask("a", "steps", steps(0, 9))
    assert json.loads(asked.ask("a", "info").body)["counters"]["global_step"] == 2  # each took half a second
    asked.send(*[("a", "step", STEP)] * 7)  # at once: none is applied between
    answers = [asked.answer() for _ in range(7)]
    assert statuses(answers) == [200] * accepted + [503] * (7 - accepted)
    assert json.loads(asked.ask("a", "info").body)["counters"]["global_step"] == 2 + accepted
    asked.send(("a", "steps", steps(0, 8)), ("a", "step", STEP))
    taken, refused = asked.answer(), asked.answer()
    assert (taken.head["status"], refused.head["status"]) == (200, 503)
    assert (json.loads(refused.body)["code"], refused.head["retry_after"]) == ("agent_busy", 1)
    assert asked.ask("a", "act", ACT).head["status"] == 200
    assert json.loads(asked.ask("a", "info").body)["counters"]["global_step"] == 10 + accepted
    assert json.loads(asked.ask("a", "step", STEP).body) == {"accepted": 1, "seq": 18 + accepted}


@pytest.mark.parametrize("freshness", ["strict", "relaxed"])
def test_a_due_checkpoint_is_written_before_the_next_step_of_an_agent_that_steps_keep_busy(
    started: Started, built: Built, houses: Houses, freshness: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates, asked, folder = Updates(monkeypatch), started(checkpoint_steps=10), tmp_path / "agents" / "a"
    asked.ask("a", "open", json.dumps(built("dqn", {**DQN, "freshness": freshness}).to_json()).encode())
    assert asked.ask("a", "steps", steps(0, 12)).head["status"] == 200
    houses.pass_by()  # five updates are to be done first
    asked.send(("a", "step", STEP))
    houses.pass_by()
    assert checkpoints(folder) == [0]
    updates.go(5)
    assert json.loads(asked.answer().body) == {"accepted": 1, "seq": 13}
    assert (checkpoints(folder), updates.done) == ([0, 1], 5)
    updates.allowed.release()
