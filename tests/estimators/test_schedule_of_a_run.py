"""What a run goes on with: its schedule, its environments, and what is said where they change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.estimators.limits import FIRST_UPDATE, UPDATE_FREQUENCY, UpdateSchedule
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import ddpg, sac
from axonrl.run_dir import sources
from axonrl.run_dir.history import read_columns
from axonrl.tests.estimators.fakes import Counting, ListMemory, Notes, agent, vector


def recorded(model_dir: Path) -> Any:
    found = json.loads((model_dir / "run.json").read_text())
    return found["schedule"], found["limits"]


def test_a_default_is_a_default_and_the_same_number_is_not() -> None:
    assert UpdateSchedule() == UpdateSchedule(35, 10)
    assert UpdateSchedule().non_defaults == {}
    assert UpdateSchedule(35).non_defaults == {"first_update": 35}
    assert UpdateSchedule(update_frequency=10).non_defaults == {"update_frequency": 10}
    assert (FIRST_UPDATE, UPDATE_FREQUENCY) == (35, 10)


def test_a_run_keeps_its_schedule_argument_by_argument(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def updates(*given: int, **named: Any) -> list[int]:
        notes = Notes()
        schedule: dict[str, Any] = {**dict(zip(("first_update", "update_frequency"), given, strict=False)), **named}
        agent(tmp_path).train(Counting(), **schedule, timesteps=10, hooks=[notes])
        return notes.update_timesteps

    assert updates(6, 2) == [6, 8, 10]
    assert recorded(tmp_path) == ({"first_update": 6, "update_frequency": 2}, {"timesteps": 10})
    assert updates() == [12, 14, 16, 18, 20]
    assert caplog.messages == []
    assert updates(update_frequency=5) == [21, 26]
    assert caplog.messages == [f"update_frequency is 5 from now on; the run in {tmp_path} had 2"]
    assert recorded(tmp_path) == ({"first_update": 6, "update_frequency": 5}, {"timesteps": 30})
    assert updates(35, 10) == [35]  # given, so that they are not what the run had


def test_a_check_records_nothing(tmp_path: Path) -> None:
    agent(tmp_path).check(Counting(), 7, 3)
    assert recorded(tmp_path) == (None, None)
    agent(tmp_path).train(Counting(), 6, 2, timesteps=10)
    before = (tmp_path / "run.json").read_bytes()
    assert agent(tmp_path).check(gymnasium.wrappers.OrderEnforcing(Counting()), 7, 3).schedule == UpdateSchedule(7, 3)
    assert (tmp_path / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("memory", "copies", "expected"),
    [
        (ReplayMemory(1000, 4), 1, [35, 45, 55, 65]),
        (ReplayMemory(1000, 60), 1, [60, 70]),
        (ReplayMemory(1000, 58, n_step=3), 1, [60, 70]),  # two timesteps wait for the rewards that follow
        (ReplayMemory(1000, 50), 4, [52, 60, 72]),
        (ListMemory(50), 1, [50, 60, 70]),
    ],
    ids=["enough", "uniform", "n-step", "four environments", "own"],
)
def test_a_first_update_that_nobody_gave_waits_for_a_batch(
    tmp_path: Path, memory: Any, copies: int, expected: list[int]
) -> None:
    notes = Notes()
    env = Counting(100) if copies == 1 else vector(*(Counting(100) for _ in range(copies)))
    agent(tmp_path, memory).train(env, timesteps=72, hooks=[notes])
    assert notes.update_timesteps == expected


def test_a_first_update_that_was_given_does_not_wait(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"35 timesteps \(first_update\) cannot fill a batch of 64"):
        agent(tmp_path, ReplayMemory(1000, 64)).train(Counting(), first_update=35, timesteps=70)


@pytest.mark.usefixtures("unconverted")
@pytest.mark.parametrize(
    ("model", "frequency", "said"),
    [
        (sac, {}, ["update_frequency is 10; SAC's paper updates at every timestep"]),
        (ddpg, {"update_frequency": 1}, []),
    ],
)
def test_far_fewer_updates_than_in_the_paper_are_said(
    model: Any, frequency: Any, said: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learner = Agent(model.model_fn, ReplayMemory(100, 8), tmp_path, RunConfig(seed=0, progress=False), {"hidden": [4]})
    for _ in range(2):  # once
        learner.check("Pendulum-v1", **frequency)
    assert [message for message in caplog.messages if "update_frequency" in message] == said


def test_a_training_without_an_update_or_a_limit_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    agent(tmp_path / "a").train(Counting(), first_update=50, timesteps=20)
    agent(tmp_path / "b", BatchMemory(32), model=_constant_model).train(Counting(), timesteps=31)
    assert caplog.messages == [
        "no update will be made: training ends at timestep 20, and the first update is at timestep 50",
        "no update will be made: training ends at timestep 31, and the BatchMemory is first full after 32",
    ]
    caplog.clear()

    class Stop:
        def after_timestep(self, session: Any, facts: Any) -> None:
            session.request_stop("enough")

    agent(tmp_path / "c").train(Counting(), hooks=[Stop()])
    assert caplog.messages == ["no limit given: training continues until Ctrl-C, or until a hook stops it"]


def _constant_model(features: Any, labels: Any, mode: str) -> Any:
    import tensorflow as tf

    from axonrl import EstimatorSpec

    weight = tf.Variable(0.0, name="weight")
    if mode == "predict":
        return EstimatorSpec(mode, {"action": tf.cast(features[:, 0] * weight, tf.int32)})
    return EstimatorSpec(mode, loss=weight, train_op=weight.assign_add(1.0))


# -- its environments -------------------------------------------------------------------------------------------------


def environment_of(model_dir: Path) -> Any:
    found = json.loads((model_dir / "run.json").read_text())
    return found["num_envs"], found["environment"]


def test_an_id_stands_for_the_environments_that_the_run_had(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limit = {"kind": "time_limit", "max_episode_steps": 7}
    first = make("CartPole-v1", 2, wrappers=[limit])
    agent(tmp_path).train(first, timesteps=40)
    had = 2, {"id": "CartPole-v1", "kwargs": {}, "wrappers": [limit]}
    assert environment_of(tmp_path) == had
    caplog.clear()
    loaded = agent(tmp_path)
    loaded.train("CartPole-v1", timesteps=40)
    assert (loaded.global_timestep, environment_of(tmp_path)) == (80, had)
    assert read_columns(tmp_path).length.max() == 7
    assert caplog.messages == []
    loaded.train(make("CartPole-v1", 2), timesteps=2)  # given, and different
    (told,) = caplog.messages
    assert told.startswith("the environment is {'id': 'CartPole-v1', 'kwargs': {}, 'wrappers': []} from now on;")
    assert environment_of(tmp_path) == (2, {"id": "CartPole-v1", "kwargs": {}, "wrappers": []})


def test_a_run_whose_code_was_edited_says_so_and_is_not_exact(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_in = ("model_fn", "environment")
    for digest in ("a", "a", "b"):
        monkeypatch.setattr(sources, "digest_of", lambda made, digest=digest: {"digest": digest})
        monkeypatch.setattr(sources, "is_own", lambda made: True)
        agent(tmp_path).train(Counting(), timesteps=2)
    edited = [
        f"this run will not resume exactly: the code of its {part} was edited" for part in ("model_fn", "environment")
    ]
    assert [message for message in caplog.messages if "edited" in message] == edited
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["code"] == {part: {"digest": "b"} for part in found_in}
