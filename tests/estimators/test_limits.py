"""How long ``train`` runs, and the very timesteps of its updates."""

import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.errors import ArgumentError
from axonrl.estimators.limits import Goal, Limits, UpdateSchedule
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.run_dir.snapshot import Counters
from axonrl.tests.estimators.fakes import (
    Counting,
    ListMemory,
    Notes,
    agent,
    differences,
    rollout_model,
    snapshot,
    vector,
)
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")


@pytest.mark.parametrize(
    ("schedule", "num_envs"), [(UpdateSchedule(35, 10), 1), (UpdateSchedule(35, 10), 4), (UpdateSchedule(5, 3), 7)]
)
def test_what_becomes_due_on_the_way_adds_up(schedule: UpdateSchedule, num_envs: int) -> None:
    timesteps = range(0, 84, num_envs)
    became = [schedule.due_between(before, before + num_envs) for before in timesteps]
    assert list(itertools.accumulate(became)) == [schedule.due(before + num_envs) for before in timesteps]


@pytest.mark.parametrize(
    ("timesteps", "expected"),
    [
        (range(34, 67), [35, 45, 55, 65]),
        (range(0, 200, 50), [50, 50, 100, 100, 100, 100, 100, 150, 150, 150, 150, 150]),
    ],
    ids=["one environment", "fifty"],
)
def test_updates_due_with_35_and_10(timesteps: range, expected: list[int]) -> None:
    schedule = UpdateSchedule(35, 10)
    pairs = itertools.pairwise(timesteps)
    assert [t1 for t0, t1 in pairs for _ in range(schedule.due(t1) - schedule.due(t0))] == expected


def test_schedules_and_limits_are_of_integers_of_at_least_1(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"update_frequency must be an integer of at least 1, got 2\.5"):
        UpdateSchedule(35, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_episodes must be an integer of at least 1, got 0"):
        agent(tmp_path).train(Counting(), max_episodes=0)
    with pytest.raises(ArgumentError, match=r"give timesteps=1 .* or max_timesteps=2 .* not both") as error:
        agent(tmp_path).train(Counting(), timesteps=1, max_timesteps=2)
    assert (error.value.argument, error.value.value) == ("timesteps", 1)
    assert list(tmp_path.iterdir()) == []


def test_increments_count_from_where_the_run_stands() -> None:
    counters = Counters(global_step=5, global_timestep=70, global_episode=3)
    ten: Any = np.int64(10)
    assert Goal(steps=ten, episodes=1, max_timesteps=60).limits(counters) == Limits(15, 4, 60)
    assert Goal(timesteps=10).limits(counters) == Limits(timesteps=80)
    assert Limits(15, None, 60).by_kind() == {"steps": 15, "timesteps": 60}


@pytest.mark.parametrize(("num_envs", "expected"), [(1, [35, 45, 55, 65]), (4, [36, 48, 56, 68])])
def test_updates_come_at_the_very_timesteps_across_processes(
    num_envs: int, expected: list[int], tmp_path: Path
) -> None:
    notes = Notes()
    for timesteps in (20, 24, 16, 8):  # each Agent knows only what is in model_dir
        memory = ListMemory()
        env = vector(*(Counting(5) for _ in range(num_envs))) if num_envs > 1 else Counting(5)
        agent(tmp_path, memory).train(env, timesteps=timesteps, hooks=[notes])
    assert notes.update_timesteps == expected
    assert notes.events[-1] == ("end", 68, 4, 68 // (5 * num_envs) * num_envs)


@pytest.mark.parametrize(
    ("limits", "end", "reason"),
    [
        ({"max_steps": 3, "episodes": 19, "max_timesteps": 56}, (55, 3, 18), "global_step reached 3"),
        ({"steps": 4, "max_episodes": 17, "timesteps": 56}, (51, 2, 17), "global_episode reached 17"),
        ({"steps": 4, "max_episodes": 19, "timesteps": 56}, (56, 3, 18), "global_timestep reached 56"),
    ],
)
def test_the_first_limit_reached_wins(
    limits: dict[str, Any], end: tuple[int, int, int], reason: str, tmp_path: Path
) -> None:
    notes = Notes()
    one = agent(tmp_path).train(Counting(3), hooks=[notes], **limits)
    assert (one.global_timestep, one.global_step, one.global_episode) == end
    assert notes.facts["end"][0].reason == reason
    assert notes.facts["begin"][0].limits == {name.removeprefix("max_"): value for name, value in limits.items()}


def test_increments_add_and_totals_do_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = agent(tmp_path)
    for total in (10, 20):
        assert one.train(Counting(3), timesteps=10).global_timestep == total
    checkpoints = sorted((tmp_path / "checkpoints").iterdir())
    notes = Notes()
    for same in (one, agent(tmp_path)):
        with caplog.at_level(logging.INFO, logger="axonrl"):
            same.train(Counting(3), max_timesteps=20, hooks=[notes])
        assert same.global_timestep == 20
    assert notes.events == []
    said = [message for message in caplog.messages if not message.startswith(("Using", "no update"))]
    assert said == ["nothing to train: global_timestep reached 20"] * 2
    assert sorted((tmp_path / "checkpoints").iterdir()) == checkpoints
    assert agent(tmp_path).train(Counting(3), max_timesteps=21).global_timestep == 21


@pytest.mark.parametrize(("num_envs", "fresh"), [(1, False), (4, True)], ids=["same Agent", "new Agents"])
def test_two_calls_with_k_steps_are_one_with_2k(num_envs: int, fresh: bool, tmp_path: Path) -> None:
    """With four environments and an update per timestep, each call ends in the middle of a vector step."""

    def train(folder: str, *calls: int) -> None:
        one = agent(tmp_path / folder, ReplayMemory(400, 4))
        for steps in calls:
            lengths = range(3, 3 + num_envs)
            env = vector(*map(Counting, lengths)) if num_envs > 1 else Counting(3)
            one = agent(tmp_path / folder, ReplayMemory(400, 4)) if fresh else one
            one.train(env, first_update=8, update_frequency=1, steps=steps)
            assert one.global_step == sum(calls[: calls.index(steps) + 1])

    train("once", 30)
    train("twice", 14, 16)
    train("often", 1, 2, 5, 22)
    once = snapshot(tmp_path / "once")
    assert once["counters"]["global_timestep"] == (37 if num_envs == 1 else 40)
    for other in ("twice", "often"):
        assert differences(once, snapshot(tmp_path / other)) == []


def test_no_update_runs_beyond_a_limit_that_was_passed_before(tmp_path: Path) -> None:
    """The first call leaves updates pending: 1 + 4 * 4 are due by timestep 24."""
    one = agent(tmp_path, ReplayMemory(400, 4))
    env = vector(*(Counting(3) for _ in range(4)))
    one.train(env, first_update=8, update_frequency=1, steps=14)
    for steps, reached in ((10, 14), (14, 14), (16, 16), (10, 16)):
        assert one.train(env, max_steps=steps).global_step == reached
    assert one.global_timestep == 24


def test_timesteps_stop_at_the_first_vector_step_that_reaches_them(tmp_path: Path) -> None:
    one = agent(tmp_path)
    env = vector(*(Counting(5) for _ in range(4)))
    assert one.train(env, timesteps=9).global_timestep == 12
    assert one.train(env, timesteps=4).global_timestep == 16
    assert one.train(env, max_timesteps=17).global_timestep == 20


def test_surplus_episodes_of_a_vector_step_are_cut_in_environment_order(tmp_path: Path) -> None:
    notes = Notes()
    one = agent(tmp_path)
    envs = [Counting(length) for length in (2, 3, 2, 2)]
    one.train(vector(*envs), episodes=2, hooks=[notes])
    assert one.global_episode == 2
    assert [stats.environment for stats in notes.facts["after_episode"]] == [0, 2]
    first = [env.seeds[0] for env in envs]
    one.train(vector(*envs), episodes=3, hooks=[notes])
    # Environment 3 was cut: it goes on with its next seed, as the others do, and its episode 0 never counts.
    assert [(s.environment, s.episode) for s in notes.facts["after_episode"][2:]] == [(1, 0), (0, 1), (2, 1)]
    begun = [(f.environment, f.episode) for f in notes.facts["before_episode"]]
    assert begun[:4] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert begun[4:7] == [(0, 1), (2, 1), (3, 1)]
    assert first[1] == envs[1].seeds[1]  # the episode in flight was brought back from its seed
    assert first[3] != envs[3].seeds[-1]


@pytest.mark.parametrize(("memory", "first_update"), [(ReplayMemory(100, 8, n_step=3), 9), (ListMemory(8), 7)])
def test_a_first_update_that_cannot_fill_a_batch_is_refused_at_once(
    memory: Any, first_update: int, tmp_path: Path
) -> None:
    env = Counting()
    one = agent(tmp_path, memory)
    match = rf"{first_update} timesteps \(first_update\) cannot fill a batch of 8 from the {type(memory).__name__}"
    error = raised(ArgumentError, one.train, env, first_update=first_update, timesteps=20, match=match)
    assert (error.argument, error.value) == ("first_update", first_update)
    assert env.seeds == []
    assert not (tmp_path / "run.json").exists()
    notes = Notes()
    one.train(env, first_update=first_update + 1, timesteps=20, hooks=[notes])
    assert notes.update_timesteps[0] == first_update + 1


def test_a_due_update_that_cannot_sample_is_skipped_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A memory that loses its content, as a user's may when it is cleared."""

    class Forgetful(ListMemory):
        def load_state_dict(self, state: Any) -> None:
            super().load_state_dict(state)
            self.clear()

    agent(tmp_path, Forgetful(8)).train(Counting(), timesteps=40)
    notes = Notes()
    one = agent(tmp_path, Forgetful(8))
    with caplog.at_level(logging.WARNING, logger="axonrl"):
        one.train(Counting(), first_update=10, update_frequency=2, timesteps=12, hooks=[notes])
    assert notes.update_timesteps == [48, 50, 52]  # due at 42, 44 and 46, too
    assert [r.getMessage() for r in caplog.records if "skipping" in r.getMessage()] == [
        "skipping due updates: the memory cannot fill a batch yet"
    ]


@pytest.mark.parametrize(("own", "num_envs"), [(False, 2), (True, 1)], ids=["BatchMemory", "user's own"])
def test_a_memory_that_fills_and_empties_sets_the_schedule(own: bool, num_envs: int, tmp_path: Path) -> None:
    memory, notes = ListMemory(8, is_rollout=True) if own else BatchMemory(8), Notes()
    env = vector(*(Counting() for _ in range(num_envs))) if num_envs > 1 else Counting()
    one = agent(tmp_path, memory, rollout_model)
    one.train(env, first_update=1, update_frequency=1, timesteps=20, hooks=[notes])
    assert notes.update_timesteps == [8, 16]
    assert len(memory) == 4
    one.train(env, first_update=1, update_frequency=1, steps=1, hooks=[notes])
    assert notes.update_timesteps == [8, 16, 24]
    assert len(memory) == 0


def test_the_agent_calls_the_methods_of_the_contract_and_no_others(tmp_path: Path) -> None:
    memory = ListMemory(2)
    agent(tmp_path, memory).train(Counting(), first_update=2, update_frequency=2, timesteps=4)
    two_timesteps_and_an_update = ["step", "step", "sample", "update_priorities"]
    assert memory.calls == ["build", *two_timesteps_and_an_update * 2]
    assert [error.shape for error in memory.td_errors] == [(2,), (2,)]
    assert memory.sampled_at == [2, 4]
