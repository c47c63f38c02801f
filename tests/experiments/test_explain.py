"""Explanations by ``axonrl check``, against numbers worked out by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl.core import registry
from axonrl.estimators.limits import UpdateSchedule
from axonrl.estimators.run_summary import Part, RunSummary
from axonrl.experiments.config.schema import ExperimentFile, load
from axonrl.experiments.running import explain, runner
from axonrl.experiments.running.explain import early_ends, explanation, rows, space_summary
from axonrl.experiments.running.report import Result
from axonrl.experiments.running.report import rows as result_rows
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models.blocks.params import parameters_of
from axonrl.run_dir.history import EPISODES

FILE = "environment: {id: CartPole-v1}\nagent: {model_fn: dqn, memory: {kind: replay, size: 100, batch_size: 10}}\n"


@pytest.fixture(autouse=True)
def is_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYAXON_NO_OP")


def loaded(folder: Path, sets: dict[str, str]) -> ExperimentFile:
    (folder / "file.yml").write_text(FILE)
    return load(folder / "file.yml", sets=sets)[0]


def explained(folder: Path, memory: Any, num_envs: int = 1, *, cluster: str = "null", **train: Any) -> dict[str, Any]:
    sets = {f"train.{name}": str(value) for name, value in train.items()} | {"distributed": cluster}
    experiment = loaded(folder, sets)
    schedule = UpdateSchedule() if experiment.train is None else experiment.train.schedule
    parts = {"q": Part(3, 2, True)}
    outline = RunSummary(spaces.Discrete(2), spaces.Discrete(3), num_envs, parts, 2048, schedule, {}, {})
    return explanation(experiment, memory, outline, folder / "run")


@pytest.mark.parametrize(
    ("num_envs", "train", "first", "updates"),
    [
        # With one environment 35, 45, 55; with four after 36, 48, 56 and 68, as DESIGN's schedule has it.
        (1, {"max_timesteps": 55}, 35, 3),
        (1, {"max_timesteps": 54}, 35, 2),
        (4, {"max_timesteps": 53}, 36, 3),  # the last vector step ends at 56
        (4, {"max_timesteps": 52}, 36, 2),
        (1, {"max_steps": 2, "max_timesteps": 55}, 35, 2),
        (1, {}, 35, None),
    ],
)
def test_the_schedule(tmp_path: Path, num_envs: int, train: dict[str, Any], first: int, updates: int | None) -> None:
    found = explained(tmp_path, ReplayMemory(100, batch_size=10), num_envs, **train)["train"]
    assert (found["first_update_at"], found["timesteps_per_update"], found["updates"]) == (first, 10, updates)


@pytest.mark.parametrize(
    ("cluster", "memory", "wanted"),
    [
        ("{actors: 4}", ReplayMemory(100, 10), 5),  # and half of one for the shard
        ("{actors: 4}", BatchMemory(40), None),
        ("{actors: 9, address: auto}", ReplayMemory(100, 10), None),  # nobody knows
        ("{actors: 9, backend: inline}", ReplayMemory(100, 10), None),
    ],
)
def test_more_actors_than_processors(
    cluster: str, memory: Any, wanted: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "processors", lambda: 4)
    told = [one["message"] for one in explained(tmp_path, memory, cluster=cluster)["warnings"]]
    they_share = f"actors and shards want {wanted} processors but share 4"
    assert told == ([] if wanted is None else [they_share])


def test_a_memory_that_fills_sets_the_schedule(tmp_path: Path) -> None:
    found = explained(tmp_path, BatchMemory(40), 8, max_timesteps=199)["train"]
    assert (found["first_update_at"], found["timesteps_per_update"], found["updates"]) == (40, 40, 5)

    class Own:
        is_rollout = True

    found = explained(tmp_path, Own(), max_timesteps=100)
    assert (found["train"]["first_update_at"], found["train"]["updates"]) == (None, None)
    assert rows(found)["first update"] == "when the memory is full"
    assert rows(found)["updates"] == "one each time the memory is full"


@pytest.mark.parametrize(
    ("memory", "timesteps", "params", "ends"),
    [
        # 390 updates: one ends with the run
        (BatchMemory(256), 100_000, {"learning_rate": (0, 390), "clip": (0, 389)}, [(["clip"], 0, 389, 99_584)]),
        # 1 + (1000 - 35) // 10 = 97 updates; 48 is in the first half, 49 is not; epsilon follows timesteps, and may end
        (
            ReplayMemory(100, 10),
            1000,
            {"learning_rate": (0.1, 48), "clip": (0.1, 49), "epsilon": (0, 5)},
            [(["learning_rate"], 0.1, 48, 505)],
        ),
        (ReplayMemory(100, 10), None, {"learning_rate": (0, 5)}, []),  # it is not known when the run ends
    ],
)
def test_schedules_that_end_before_the_run(
    tmp_path: Path, memory: Any, timesteps: int | None, params: dict[str, Any], ends: list[Any]
) -> None:
    sets = {
        f"agent.params.{name}": f"{{kind: linear, start: 0.5, stop: {stop}, duration: {duration}}}"
        for name, (stop, duration) in params.items()
    }
    experiment = loaded(tmp_path, sets | ({} if timesteps is None else {"train.max_timesteps": str(timesteps)}))
    found = early_ends(experiment, memory)
    assert [(one.params, one.value, one.update, one.timestep) for one in found] == ends
    assert all(one.timesteps == timesteps for one in found)


def test_params_that_follow_timesteps_are_those_that_say_so() -> None:
    every = [one for algorithm in registry.BUILT_IN["model_fn"] for one in parameters_of(algorithm).values()]
    assert {one.name for one in every if "follows `global_timestep`" in one.meaning} == set(explain.OVER_TIMESTEPS)


SCHEDULES: dict[str, tuple[float, int] | None] = {
    "{kind: polynomial, start: 1, stop: 0, duration: 5, power: 2}": (0, 5),
    "{kind: exponential, start: 1, rate: 0.5, duration: 10, floor: 0.25}": (0.25, 20),
    "{kind: exponential, start: 1, rate: 0.5, duration: 10}": None,  # it never is 0
    "{kind: exponential, start: 1, rate: 0.5, duration: 10, floor: 0.2, staircase: true}": (0.2, 30),
    "{kind: natural_exponential, start: 1, rate: 0.5, duration: 10, floor: 0.2}": (0.2, 33),  # 20 ln 5 = 32.2
    "{kind: inverse_time, start: 1, rate: 0.5, duration: 10, floor: 0.25}": (0.25, 60),
    "{kind: cosine, start: 1, stop: 0, duration: 6}": (0, 6),
    "{kind: piecewise_constant, boundaries: [3, 9], values: [3, 2, 0]}": (0, 9),
    "{kind: linear, start: 1, stop: 0, duration: 0.25, over: run}": (0, 250),  # of 1,000 updates
    "{kind: linear, start: 1, stop: 0, over: run}": None,
    "{kind: constant, value: 0}": None,
    "0.5": None,
}


def test_ends_of_schedules(tmp_path: Path) -> None:
    params = {f"agent.params.p{index}": schedule for index, schedule in enumerate(SCHEDULES)}
    found = early_ends(loaded(tmp_path, {**params, "train.max_steps": "1000"}), BatchMemory(10))
    ends = {f"p{index}": end for index, end in enumerate(SCHEDULES.values()) if end is not None}
    assert {name: (one.value, one.update) for one in found for name in one.params} == ends


def test_what_is_said_of_a_run_without_limits(tmp_path: Path) -> None:
    found = rows(explained(tmp_path, ReplayMemory(100, batch_size=10)))
    assert found["ends after"] == "no limit: a hook or Ctrl-C stops it"
    assert found["updates"] == "one every 10 timesteps"
    assert found["memory"] == "replay, 2,048 bytes (2.0 KiB)"
    assert found["parameters, q"] == "3, 2 of them trained, used to act"
    found = rows(explained(tmp_path, ReplayMemory(100, batch_size=10), max_timesteps=5_000, max_episodes=30))
    assert found["ends after"] == "5,000 timesteps, or 30 episodes"


def test_where_a_run_is_tracked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> tuple[Any, str]:
        found = explained(tmp_path, ReplayMemory(100, batch_size=10))
        return found["tracker"], rows(found)["tracked"]

    here, host = "in the run folder", "https://polyaxon.example.com"
    assert told() == ([], here)
    monkeypatch.setenv("POLYAXON_HOST", host)
    assert told() == ([{"kind": "polyaxon", "host": host}], f"{here}, polyaxon (host={host})")
    monkeypatch.setenv("POLYAXON_IS_OFFLINE", "true")
    assert told() == ([], here)
    monkeypatch.setenv("POLYAXON_NO_OP", "true")
    assert told() == (None, "no, disabled by POLYAXON_NO_OP")


def test_spaces() -> None:
    bounds = np.array([-1, -np.inf], np.float32), np.array([5, 1], np.float32)
    inner = spaces.Tuple([spaces.Box(0, 255, (84, 84), np.uint8), spaces.MultiBinary(3), spaces.Box(-2.0, 2.0, ())])
    assert space_summary(spaces.Dict(a=spaces.Discrete(4), b=spaces.Box(*bounds), c=inner)) == (
        "Dict(a: Discrete(4), b: Box(2,) of float32, -inf to 5,"
        " c: Tuple(Box(84, 84) of uint8, 0 to 255, MultiBinary(3), Box() of float32, -2 to 2))"
    )


REAL = """\
environment:
  id: CartPole-v1
  num_envs: 2
  wrappers: [normalize_observation, {kind: time_limit, max_episode_steps: 100}]
agent:
  model_fn: dqn
  params: {hidden: [8]}
  memory: {kind: replay, size: 1000, batch_size: 16}
config: {runtime: tensorflow}
train: {first_update: 101, update_frequency: 4, max_timesteps: 999}
hooks: [{kind: evaluation, every_timesteps: 500}]
tracker: [polyaxon, {kind: mlflow, experiment: carts}]
"""


def test_a_real_one(tmp_path: Path) -> None:
    file = tmp_path / "real.yml"
    file.write_text(REAL)
    found = runner.check(*load(file), tmp_path)
    assert rows(found) == {
        "environment": "CartPole-v1, 2 copies",
        "wrappers": "normalize_observation, time_limit (max_episode_steps=100)",
        "observations": "Box(4,) of float32, -10 to 10",
        "actions": "Discrete(2)",
        "model": "dqn",
        "parameters, online": "58, used to act",  # 4 * 8 + 8 + 8 * 2 + 2
        "parameters, target": "58",
        "state, adam": "117",  # two moments of each, and the iteration
        "values in all": "233",
        # Two observations of 4 float32, an action (int64), a reward (float32), two flags, 1000 timesteps of each.
        "memory": rows(found)["memory"],
        "actor runs in": "tensorflow: as requested",
        "learner runs in": "tensorflow: as requested",
        "first update": "at timestep 102",
        "updates": "225, one every 4 timesteps",  # 1 + (1000 - 101) // 4
        "ends after": "999 timesteps",
        "evaluation": "100 episodes of the best policy, after training",
        "hooks": "evaluation (every_timesteps=500)",
        "tracked": "in the run folder, mlflow (experiment=carts)",
        "run folder": str(tmp_path),
    }
    assert found["memory"]["bytes"] >= 1000 * (2 * 4 * 4 + 8 + 4 + 1 + 1)


def test_the_results_of_a_run(tmp_path: Path) -> None:
    returns = [0.0] * 50 + [10.0] * 50 + [20.0] * 50
    (tmp_path / EPISODES).write_text("header\n" + "".join(f"1,10,{value},10,0.1\n" for value in returns))
    evaluation = {"episode_return_mean": 487.25, "episode_return_std": 12.5, "episodes": 100}
    result = Result("my_run", tmp_path, 1234, 50_000, 24_501, 61.25, 816.4, evaluation)
    assert result_rows(result) == {
        "episodes": "1,234",
        "timesteps": "50,000",
        "updates": "24,501",
        "seconds": "61.2",
        "timesteps/s": "816",
        "training return, last 100 episodes": "15.00",
        "evaluation return, 100 episodes": "487.25 ± 12.50",
    }
