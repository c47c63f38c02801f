"""Several threads, and several processes, use one policy, agent or stepper: each call is as if it were alone."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from axonrl import Agent, RunConfig
from axonrl.estimators.stepper import Stepper
from axonrl.memories import ReplayMemory
from axonrl.policies import Policy
from axonrl.run_dir import programs
from axonrl.runtimes.trial import Trial
from axonrl.tests.estimators.fakes import At, Counting, agent, differences, linear_model

CALLS = 500
OBSERVATIONS = [np.array([value, -value], np.float32) for value in (-2.0, -0.5, 0.5, 2.0)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    return agent(tmp_path_factory.mktemp("threads") / "run").train(Counting(), first_update=5, timesteps=20)


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """What each call returns, or the exception that it raises, all of them made at the same time."""
    results: list[Any] = [None] * len(calls)
    begin = threading.Barrier(len(calls))

    def work(k: int) -> None:
        begin.wait()
        try:
            results[k] = calls[k]()
        except Exception as error:
            results[k] = error

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def repeated(act: Callable[[Any], Any], observation: Any) -> Callable[[], list[Any]]:
    return lambda: [act(observation) for _ in range(CALLS)]


def values(predict: Callable[[Any], Any]) -> Callable[[Any], list[float]]:
    return lambda observation: predict(observation[None])["values"].ravel().tolist()


@pytest.mark.parametrize("kind", ["policy", "copies", "agent"])
def test_each_thread_gets_what_belongs_to_its_observation(trained: Agent, kind: str, tmp_path: Path) -> None:
    if kind == "agent":
        predicts: Sequence[Any] = [values(trained.predict)] * 4
    else:
        policy = Policy.load(trained.export(tmp_path / "exported"))
        predicts = [values((policy.copy() if kind == "copies" else policy).predict) for _ in range(4)]
    expected = [predicts[0](observation) for observation in OBSERVATIONS]
    calls = [repeated(predict, one) for predict, one in zip(predicts, OBSERVATIONS, strict=True)]
    assert in_threads(*calls) == [[one] * CALLS for one in expected]


def test_a_copy_has_weights_of_its_own(trained: Agent, tmp_path: Path) -> None:
    policy = Policy.load(trained.export(tmp_path / "exported"))
    before = policy.get_weights()
    policy.set_weights({name: value + 1 for name, value in before.items()})
    copy = policy.copy(seed=1)
    policy.set_weights(before)
    assert all(np.array_equal(copy.get_weights()[name], value + 1) for name, value in before.items())
    assert values(copy.predict)(OBSERVATIONS[0]) != values(policy.predict)(OBSERVATIONS[0])


def test_threads_that_act_and_learn_with_one_stepper(tmp_path: Path) -> None:
    """Updates are counted one by one, and every act sees the weights between two of them: its values are finite."""
    one = Agent(linear_model, ReplayMemory(100, 4), tmp_path, RunConfig(seed=1))
    with one.interact(Box(-9, 9, (2,)), Discrete(2), first_update=1000, update_frequency=1):
        _act_and_learn(one._trainer.state().stepper)


def _act_and_learn(stepper: Stepper) -> None:
    for k in range(50):
        action, recorded = stepper.act(np.full((1, 2), k, np.float32))
        row = {"observation": np.full(2, k, np.float32), "next_observation": np.full(2, k + 1, np.float32)}
        stepper.store_one(
            {**row, "action": np.asarray(action)[0], "reward": 1.0, "terminated": False, "truncated": False, **recorded}
        )

    def learn() -> int:
        return len([stepper.learn() for _ in range(100)])

    def act() -> int:
        return len([stepper.act(OBSERVATIONS[0][None]) for _ in range(CALLS)])

    assert in_threads(*[learn] * 4, *[act] * 4) == [100] * 4 + [CALLS] * 4
    assert stepper.counters.global_step == 400
    assert all(np.isfinite(value).all() for value in stepper.weights().values())


def test_acting_beside_a_training_changes_nothing_of_it(tmp_path: Path) -> None:
    """Another thread asks for the actions of the first checkpoint, whose weights act in the trained ones' place."""
    alone = agent(tmp_path / "alone").train(Counting(), first_update=5, update_frequency=1, timesteps=200)
    beside, begun, asked = agent(tmp_path / "beside"), threading.Event(), []

    def work() -> None:
        for _ in range(50):
            asked.append(values(lambda one: beside.predict(one, policy=1))(OBSERVATIONS[0]))
            begun.set()

    thread = threading.Thread(target=work)

    def ask(session: Any) -> None:
        thread.start()
        begun.wait()

    hooks = [At("after_timestep", 20, ask)]
    beside.train(Counting(), first_update=5, update_frequency=1, timesteps=200, hooks=hooks)
    thread.join()
    assert asked == [values(lambda one: alone.predict(one, policy=1))(OBSERVATIONS[0])] * 50
    expected = alone.get_weights()
    assert all(np.array_equal(value, expected[name]) for name, value in beside.get_weights().items())


def test_exporting_beside_a_training_changes_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial of the converted program uses the variables that are trained: an update may not come in between."""
    monkeypatch.setenv(programs.VARIABLE, str(tmp_path / "cache"))
    results, tries, updated = Trial._results, threading.Event(), threading.Event()

    def waiting(trial: Trial, executor: Any, byte: int) -> Any:
        tries.set()
        updated.wait(0.5)
        return results(trial, executor, byte)

    monkeypatch.setattr(Trial, "_results", waiting)
    alone = agent(tmp_path / "alone", runtime="tensorflow").train(Counting(), 5, 1, timesteps=60)
    beside, exported = agent(tmp_path / "beside", runtime="tensorflow"), list[Path]()
    thread = threading.Thread(target=lambda: exported.append(beside.export(tmp_path / "exported")))

    def ask(session: Any) -> None:
        thread.start()
        assert tries.wait(60)

    def note(session: Any, facts: Any) -> None:
        if tries.is_set():
            updated.set()

    hooks = [At("after_timestep", 20, ask), SimpleNamespace(after_update=note)]
    beside.train(Counting(), 5, 1, timesteps=60, hooks=hooks)
    thread.join()
    assert exported == [tmp_path / "exported"]
    assert differences(alone.get_weights(), beside.get_weights()) == []


def test_a_second_thread_may_not_train_and_is_told_which_one_does(tmp_path: Path) -> None:
    learner, refused = agent(tmp_path / "run"), []

    def train_too(session: Any) -> None:
        refused.extend(in_threads(lambda: learner.train(Counting(), timesteps=5)))

    learner.train(Counting(), first_update=5, timesteps=20, hooks=[At("after_timestep", 10, train_too)])
    assert "has a session open already in thread 'MainThread'" in str(refused[0])
    assert learner.global_timestep == 20


def _act_and_train(folder: Path, policy: Path) -> tuple[str, str]:
    acted = str(Policy.load(policy).act(OBSERVATIONS[0]))
    try:
        agent(folder / str(os.getpid())).train(Counting(), timesteps=5)
    except RuntimeError as error:
        return acted, str(error)
    return acted, "trained"


def test_a_forked_process_acts_and_is_told_to_spawn_where_it_needs_tensorflow(trained: Agent, tmp_path: Path) -> None:
    policy = trained.export(tmp_path / "exported")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        acted, told = pool.apply(_act_and_train, (tmp_path, policy))
    assert acted == str(Policy.load(policy).act(OBSERVATIONS[0]))
    assert f"was forked from process {os.getpid()}, which has used TensorFlow" in told
    assert "get_context('spawn')" in told
