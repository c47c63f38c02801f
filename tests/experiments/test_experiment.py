import csv
import inspect
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonrl import Agent, RunConfig
from axonrl.errors import ArgumentError
from axonrl.experiments import BestExport, Experiment, LatestExport
from axonrl.experiments.experiment import EVALUATED, training_of
from axonrl.hooks import Hook
from axonrl.hooks.events import Session, TimestepFacts
from axonrl.memories import ReplayMemory
from axonrl.policies import Policy
from axonrl.tests.raising import raised

ENV = "CartPole-v1"
pytestmark = pytest.mark.usefixtures("traced_once")


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
    training, more, evaluating, ended = Episodes(), Episodes(), Episodes(), list[int]()
    one = experiment(agent(tmp_path), max_timesteps=200, eval_every=80, train_hooks=training)
    one.extend_train_hooks([more, lambda session, episode: ended.append(session.global_timestep)])
    one.extend_eval_hooks(evaluating)
    results = one.train_and_evaluate()
    assert results["episodes"] == evaluating.count == 2
    assert (one.agent.global_timestep, training.count) == (200, one.agent.global_episode)
    assert training.count == more.count == len(ended) > 0
    rows = (tmp_path / "evaluations.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["80", "160", "200"]


class Stop(Hook):
    """Sees the timesteps of a training, and asks to stop from one of them on."""

    def __init__(self, at: int | None) -> None:
        self.at, self.seen = at, list[int]()

    def after_timestep(self, session: Session, facts: TimestepFacts) -> None:
        self.seen.append(session.global_timestep)
        if self.at is not None and session.global_timestep >= self.at:
            session.request_stop("enough")


@pytest.mark.parametrize(("stop", "ends"), [(None, [60, 120, 150]), (70, [60, 70])])
def test_training_in_turn_with_evaluations_is_the_same_training(
    stop: int | None, ends: list[int], tmp_path: Path
) -> None:
    watching, watching_turns = Stop(stop), Stop(stop)
    plain = agent(tmp_path / "plain")
    experiment(plain, max_timesteps=150, train_hooks=watching).train()
    turns = experiment(agent(tmp_path / "turns"), max_timesteps=150, train_hooks=watching_turns)
    assert [turns.agent.global_timestep for _ in turns.continuous_train_and_eval(60)] == ends
    assert watching.seen == watching_turns.seen == [*range(1, ends[-1] + 1)]
    assert turns.agent.global_step == plain.global_step > 0
    for name, value in plain.get_weights().items():
        assert (turns.agent.get_weights()[name] == value).all()
    if stop is None:
        assert list(turns.continuous_train_and_eval(60)) == []


@pytest.mark.parametrize("limits", [{"max_timesteps": 150}, {"max_steps": 7}, {"max_timesteps": 150, "max_steps": 7}])
def test_progress_in_turns_is_that_of_the_whole_run(limits: dict[str, int], tmp_path: Path) -> None:
    def levels(folder: str, train: Callable[[Experiment], Any]) -> list[float]:
        seen: list[float] = []
        epsilon = {"kind": "linear", "start": 1.0, "stop": 0.0, "over": "run"}
        made = Agent(
            "dqn", ReplayMemory(500, 8), tmp_path / folder, RunConfig(seed=1), {"hidden": [4], "epsilon": epsilon}
        )
        one = experiment(made, **limits)
        one.extend_train_hooks([lambda session, episode: seen.append(session.exploration)])
        train(one)
        return seen

    whole = levels("whole", lambda one: one.train())
    assert levels("turns", lambda one: list(one.continuous_train_and_eval(60))) == whole
    assert whole == sorted(whole, reverse=True)
    assert len(whole) > 3


def test_the_arguments_that_an_experiment_passes_on_are_those_of_train() -> None:
    names = set(inspect.signature(Agent.train).parameters) - {"self", "env", "hooks"}
    assert len(names) == 9
    for name in names:
        assert training_of({name: 1}) == {name: 1}


@pytest.mark.parametrize(
    ("arguments", "argument", "message"),
    [
        ({"agent": Agent}, "agent", "agent must be an Agent, got <class"),
        ({"max_timestep": 10}, "max_timestep", r"no argument 'max_timestep' \(did you mean 'max_timesteps'\?\)"),
        ({"max_timesteps": -1}, "max_timesteps", "max_timesteps must be an integer of at least 1, got -1"),
        ({"export_strategies": BestExport}, "export_strategies", r"got <class .*BestExport"),
        ({"eval_hooks": Stop}, "eval_hooks", r"eval_hooks must be a hook, .*got <class"),
        ({"eval_every": 0}, "eval_every", "eval_every must be an integer of at least 1, got 0"),
    ],
)
def test_what_it_is_given_is_checked_where_it_is_made(
    arguments: dict[str, Any], argument: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=message) as error:
        Experiment(**{"agent": agent(tmp_path), "env": ENV, **arguments})
    assert error.value.argument == argument


def test_what_is_needed_when_it_is_used(tmp_path: Path) -> None:
    strategy = BestExport(tmp_path, metric="nosuch")
    one = experiment(agent(tmp_path / "run"), export_strategies=strategy)
    assert one.export_strategies == [strategy]  # one needs no list
    assert raised(ArgumentError, next, one.continuous_train_and_eval(10)).argument == "max_timesteps"
    one.train(max_timesteps=30)
    raised(ArgumentError, one.evaluate, policy=77, match="holds no checkpoint 77, only 1, 2")
    raised(ArgumentError, strategy.export, one.agent, "last", 1, {"episode_return_mean": 1.0})


def test_another_process_evaluates_each_checkpoint_once(tmp_path: Path) -> None:
    made = agent(tmp_path, keep_checkpoint_max=10)
    training = experiment(made, max_timesteps=120)
    for timesteps in (40, 80):
        training.train(max_timesteps=timesteps)
    watching = experiment(Agent.load(tmp_path))
    seen = [(one.checkpoint, one.timestep) for one in watching.continuous_eval(timeout=0, poll=0)]
    assert [timestep for _, timestep in seen] == [0, 40, 80]
    thread = threading.Thread(target=training.train)
    thread.start()
    again = experiment(Agent(None, model_dir=tmp_path))  # it knows what the other one has done
    (last,) = again.continuous_eval(poll=0.01, until=lambda one: one.timestep == 120)
    thread.join()
    assert (last.checkpoint, last.update) == (seen[-1][0] + 1, made.global_step)
    assert list(again.continuous_eval(timeout=0, poll=0)) == []


def test_a_row_cut_short_by_a_crash_does_not_swallow_the_next_one(tmp_path: Path) -> None:
    """Glued to what is left of it, checkpoint 2's would be that of 22, which would then never be evaluated."""
    made = agent(tmp_path, keep_checkpoint_max=10)
    for timesteps in (40, 80):
        experiment(made, max_timesteps=timesteps).train()
    one = experiment(Agent.load(tmp_path))
    assert [found.checkpoint for found in one.continuous_eval(timeout=0, poll=0)] == [1, 2, 3]
    path = tmp_path / EVALUATED
    header, first, *_ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + first + b"2")
    assert [found.checkpoint for found in one.continuous_eval(timeout=0, poll=0)] == [2, 3]
    assert [row["checkpoint"] for row in csv.DictReader(path.read_text().splitlines())] == ["1", "2", "2", "3"]
    assert list(one.continuous_eval(timeout=0, poll=0)) == []


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
