"""Experiment: training and evaluations as a program says them."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from axonrl import Agent, RunConfig
from axonrl.errors import ArgumentError
from axonrl.experiments import BestExport, Experiment, LatestExport
from axonrl.memories import ReplayMemory
from axonrl.policies import Policy

ENV = "CartPole-v1"


def agent(folder: Path, **config: Any) -> Agent:
    params = {"hidden": [4]}
    return Agent("dqn", ReplayMemory(500, 8), folder, RunConfig(seed=1, **config), params)


def experiment(made: Agent, **arguments: Any) -> Experiment:
    return Experiment(made, ENV, eval_episodes=2, first_update=20, update_frequency=20, **arguments)


class Episodes:
    """Counts the episodes of a training or of evaluations."""

    def __init__(self) -> None:
        self.count = 0

    def after_episode(self, session: Any, facts: Any) -> None:
        self.count += 1


def test_train_and_evaluate(tmp_path: Path) -> None:
    training, evaluating = Episodes(), Episodes()
    one = experiment(agent(tmp_path), max_timesteps=200, eval_every=80, train_hooks=[training])
    one.extend_eval_hooks([evaluating])
    results = one.train_and_evaluate()
    assert results["episodes"] == evaluating.count == 2
    assert (one.agent.global_timestep, training.count) == (200, one.agent.global_episode)
    rows = (tmp_path / "evaluations.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["80", "160", "200"]


def test_training_in_turn_with_evaluations_is_the_same_training(tmp_path: Path) -> None:
    plain = agent(tmp_path / "plain")
    experiment(plain, max_timesteps=150).train()
    turns = experiment(agent(tmp_path / "turns"), max_timesteps=150)
    assert len(list(turns.continuous_train_and_eval(60))) == 3
    for name, value in plain.get_weights().items():
        assert (turns.agent.get_weights()[name] == value).all()
    assert list(turns.continuous_train_and_eval(60)) == []


def test_a_limit_is_needed_to_train_in_turn(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as error:
        next(experiment(agent(tmp_path)).continuous_train_and_eval(10))
    assert error.value.argument == "max_timesteps"


def test_another_process_evaluates_each_checkpoint_once(tmp_path: Path) -> None:
    made = agent(tmp_path, keep_checkpoint_max=10)
    training = experiment(made, max_timesteps=120)
    for timesteps in (40, 80):
        training.train(max_timesteps=timesteps)
    watching = experiment(Agent(None, model_dir=tmp_path))
    seen = [(one.checkpoint, one.timestep) for one in watching.continuous_eval(timeout=0, poll=0)]
    assert [timestep for _, timestep in seen] == [0, 40, 80]
    thread = threading.Thread(target=training.train)
    thread.start()
    again = experiment(Agent(None, model_dir=tmp_path))  # it knows what the other one has done
    (last,) = again.continuous_eval(poll=0.01, until=lambda one: one.timestep == 120)
    thread.join()
    assert (last.checkpoint, last.update) == (seen[-1][0] + 1, made.global_step)
    assert list(again.continuous_eval(timeout=0, poll=0)) == []


def test_latest_and_best_policies_leave(tmp_path: Path) -> None:
    made = agent(tmp_path / "run")
    strategies = LatestExport(tmp_path / "latest", keep=2), BestExport(tmp_path / "best")
    one = experiment(made, max_timesteps=90, export_strategies=strategies)
    results = list(one.continuous_train_and_eval(30))
    latest = sorted(path.name for path in (tmp_path / "latest").iterdir())
    assert latest == ["timestep-000000000060", "timestep-000000000090"]
    means = [result["episode_return_mean"] for result in results]
    assert strategies[1].best == max(means)
    known = json.loads((tmp_path / "best" / "best.json").read_text())
    assert known["timestep"] == 30 * (means.index(max(means)) + 1)
    assert Policy.load(tmp_path / "best" / "policy").act([0.0, 0.0, 0.0, 0.0]) in (0, 1)


def test_the_best_is_that_of_a_named_result() -> None:
    class Exports:
        def export(self, directory: Path, policy: str | int) -> Path:
            return directory

    def results(length: float) -> Mapping[str, float]:
        return {"episode_return_mean": -length, "episode_length_mean": length}

    strategy = BestExport("nowhere", metric="nosuch")
    with pytest.raises(ArgumentError):
        strategy.export(Exports(), "last", 1, results(1.0))
