"""What is used for a second time: hooks, agents, folders and environments; and Ctrl-C where processes share it."""

import logging
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorWrapper
from gymnasium.wrappers import TimeLimit

from axonrl import Agent, EstimatorSpec, RunConfig
from axonrl.environments import make
from axonrl.environments.ids import open_environment
from axonrl.errors import ArgumentError, CheckpointError
from axonrl.estimators import batch_layout
from axonrl.explorations import EpsilonGreedy
from axonrl.hooks import EvaluationHook, StopAtReturn
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import dqn
from axonrl.tests.raising import raised

from .fakes import (
    At,
    Counting,
    Interrupted,
    ListMemory,
    agent,
    differences,
    record,
    rollout_model,
    saved,
    snapshot,
    vector,
)

pytestmark = pytest.mark.usefixtures("traced_once")


def test_hooks_that_have_seen_another_run_begin_anew(tmp_path: Path) -> None:
    """Episodes of 3 timesteps return 6: the second one is the first with two in the window."""
    hooks = [StopAtReturn(6, episodes=2)]
    for name in "abc":
        one = agent(tmp_path / name).train(Counting(3), 4, 4, max_timesteps=90, hooks=hooks)
        assert one.global_timestep == 6


def test_what_a_hook_saw_of_lost_timesteps_does_not_count(tmp_path: Path) -> None:
    hook = StopAtReturn(6, episodes=3)
    one, fails = agent(tmp_path), At("after_timestep", 7, lambda session: 1 / 0)
    raised(ZeroDivisionError, one.train, Counting(3), 4, 4, timesteps=90, hooks=[hook, fails])
    assert saved(tmp_path) == [(0, 0, 0)]  # two episodes had ended, and are lost
    one.train(Counting(3), 4, 4, timesteps=90, hooks=[hook])
    assert one.global_timestep == 9


def test_the_best_of_another_policy_is_not_to_be_beaten(tmp_path: Path) -> None:
    long, short = EvaluationHook(8, 1, env=Counting(20)), EvaluationHook(8, 1, env=Counting(3), name="short")
    agent(tmp_path).train(Counting(), 4, 4, timesteps=8, hooks=[long])
    agent(tmp_path).train(Counting(), 4, 4, timesteps=8, hooks=[short])
    assert (long.best, short.best) == (210.0, 6.0)
    assert agent(tmp_path).evaluate(Counting(), 1, policy="short")["episodes"] == 1


def test_a_best_that_was_not_kept_is_not_to_be_beaten(tmp_path: Path) -> None:
    agent(tmp_path).train(
        Counting(), 4, 4, timesteps=8, hooks=[EvaluationHook(8, 1, env=Counting(20), keep_best=False)]
    )
    agent(tmp_path).train(Counting(), 4, 4, timesteps=8, hooks=[EvaluationHook(8, 1, env=Counting(3))])
    assert (tmp_path / "best.safetensors").exists()


def test_two_hooks_that_keep_one_policy_are_refused(tmp_path: Path) -> None:
    hooks = [EvaluationHook(8, 1, env=Counting(20)), EvaluationHook(8, 1, env=Counting(3))]
    with pytest.raises(
        ValueError, match="two EvaluationHooks keep a policy 'best': give one of them another name=, or"
    ):
        agent(tmp_path).train(Counting(), 4, 4, timesteps=8, hooks=hooks)
    keeps_none = EvaluationHook(20, env=Counting(), keep_best=False)
    agent(tmp_path).check(Counting(), hooks=[hooks[0], keeps_none])


def test_an_agent_whose_checkpoints_are_gone_says_so(tmp_path: Path) -> None:
    one = agent(tmp_path).train(Counting(), 4, 4, timesteps=12)
    shutil.rmtree(tmp_path)
    with pytest.raises(CheckpointError, match=r"checkpoints in .* were deleted while in use: restore them"):
        one.train(Counting(), 4, 4, timesteps=12)
    again = agent(tmp_path).train(Counting(), 4, 4, timesteps=12)
    assert again.global_timestep == 12


def test_a_checkpoint_that_is_written_while_another_is_read_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observations = np.ones((1, 2), np.float32)
    trains, reads = agent(tmp_path).train(Counting(), 4, 1, timesteps=20), agent(tmp_path)
    opened = reads._run.store.open

    def overtaken() -> Any:
        loaded = opened()
        monkeypatch.undo()
        trains.train(Counting(), 4, 1, timesteps=20)
        return loaded

    monkeypatch.setattr(reads._run.store, "open", overtaken)
    old = reads.predict(observations)["values"]
    new = reads.predict(observations)["values"]
    assert not np.array_equal(old, new)
    np.testing.assert_array_equal(new, trains.predict(observations)["values"])


def test_what_another_agent_recorded_is_not_lost(tmp_path: Path) -> None:
    one, other = (agent(tmp_path) for _ in range(2))
    one.train(Counting(), 4, 4, timesteps=8)
    with other.session(Counting()):
        other._run.mark_not_exact("the other's reason")
    with one.session(Counting()):
        one._run.mark_not_exact("one's reason")
    assert record(tmp_path)["not_exact"] == ["the other's reason", "one's reason"]


def test_the_environment_of_the_training_is_not_evaluated_in_behind_a_wrapper_either(tmp_path: Path) -> None:
    env = Counting(7)
    message = "evaluate was given the training environment"
    with pytest.raises(ValueError, match=message):
        agent(tmp_path / "a").train(env, 4, 4, timesteps=8, hooks=[EvaluationHook(10, 1, env=TimeLimit(env, 3))])
    both = vector(env, Counting(7))
    with pytest.raises(ValueError, match=message):
        agent(tmp_path / "b").train(both, 4, 4, timesteps=8, hooks=[EvaluationHook(10, 1, env=env)])
    one = agent(tmp_path / "c")
    with one.session(env), pytest.raises(ValueError, match=message):
        one.evaluate(TimeLimit(env, 3), 1)


def test_within_a_session_a_policy_normalises_as_the_training_does_now(tmp_path: Path) -> None:
    env = make("CartPole-v1", wrappers=["normalize_observation"])
    one = agent(tmp_path / "run", ReplayMemory(1000, 8))
    with one.session(env) as session:
        for _ in range(5):
            one.run_episode(env, session, 30, 1)
        within = one.evaluate(make("CartPole-v1", wrappers=["normalize_observation"]), 3)
        one.export(tmp_path / "within")
    one.export(tmp_path / "after")
    assert one.evaluate(make("CartPole-v1", wrappers=["normalize_observation"]), 3) == within
    first, second = (Path(tmp_path / name / "policy.json").read_text() for name in ("within", "after"))
    assert first == second


def test_evaluating_before_training_teaches_no_wrapper(tmp_path: Path) -> None:
    def trained(name: str, evaluates: bool) -> Any:
        env = make("CartPole-v1", wrappers=["normalize_observation"])
        one = agent(tmp_path / name)
        if evaluates:
            one.evaluate(env, 5)
        one.train(env, 8, timesteps=50)
        return snapshot(tmp_path / name)

    assert differences(trained("evaluated", True), trained("not", False)) == []


def test_a_sync_vector_env_trains_alike_in_every_mode(tmp_path: Path) -> None:
    runs = []
    for mode in AutoresetMode:
        env = SyncVectorEnv([lambda: Counting(2), lambda: Counting(3)], autoreset_mode=mode)
        for timesteps in (21, 40):  # resumes in mid-episode
            agent(tmp_path / mode.name, BatchMemory(8), rollout_model).train(env, max_timesteps=timesteps)
        runs.append(snapshot(tmp_path / mode.name))
    assert differences(runs[0], runs[1]) == differences(runs[0], runs[2]) == []


def test_a_rollout_may_be_longer_than_most_memories_need_for_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_layout, "PATIENCE", 32)
    assert agent(tmp_path, BatchMemory(64), rollout_model).check(vector(Counting(3), Counting(3))).num_envs == 2


@pytest.mark.filterwarnings("ignore::UserWarning")  # in which Gymnasium tells what its workers raised
def test_ctrl_c_that_reaches_the_environments_processes_saves_and_resumes_exactly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "axonrl")
    env = AsyncVectorEnv([Interrupted, Counting], context="spawn", autoreset_mode=AutoresetMode.DISABLED)
    try:
        raised(KeyboardInterrupt, agent(tmp_path / "a").train, env, 4, 1, timesteps=40)
    finally:
        env.close(terminate=True)
    assert saved(tmp_path / "a")[-1][0] == 16
    how = "Continue with agent.train(..., max_timesteps=40)"
    assert f"interrupted at timestep 16; saved in {tmp_path / 'a'}. {how}" in caplog.messages
    agent(tmp_path / "a").train(vector(Counting(), Counting()), 4, 1, timesteps=24)
    agent(tmp_path / "b").train(vector(Counting(), Counting()), 4, 1, timesteps=40)
    assert differences(snapshot(tmp_path / "a"), snapshot(tmp_path / "b")) == []


def test_ctrl_c_in_the_middle_of_a_timestep_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyboardInterrupt):
        agent(tmp_path).train(Interrupted(), 4, 1, timesteps=40)
    assert saved(tmp_path) == [(0, 0, 0)]
    said = "interrupted in the middle of a timestep or a save: progress since the last checkpoint is lost"
    assert caplog.messages[-1] == f"{said}. Continue with agent.train(..., max_timesteps=40)"


@pytest.mark.usefixtures("traced_anew")
def test_agents_in_two_threads_begin_with_the_weights_of_their_seeds(tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> Any:
        one = Agent(dqn.model_fn, ReplayMemory(100, 4), tmp_path / name, RunConfig(seed=seed), {"hidden": (4,)})
        one.train("CartPole-v1", 4, 4, timesteps=1)
        return snapshot(tmp_path / name)["weights"]

    alone = [weights(f"alone-{seed}", seed) for seed in (1, 2)]
    threads = [threading.Thread(target=weights, args=(f"together-{seed}", seed)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = [snapshot(tmp_path / f"together-{seed}")["weights"] for seed in (1, 2)]
    assert differences(dict(enumerate(alone)), dict(enumerate(together))) == []


def test_an_exploration_is_an_instance() -> None:
    with pytest.raises(ValueError, match=r"takes an instance: got the class EpsilonGreedy, expected EpsilonGreedy\("):
        EstimatorSpec("predict", {"action": 0}, exploration=EpsilonGreedy)  # type: ignore[arg-type]


class Wrapper(VectorWrapper):
    """Changes nothing; but whoever looks at its type does not see a SyncVectorEnv."""


# Where all episodes end at the same step, everything would be reset; what resets itself has done so already.
@pytest.mark.parametrize("lengths", [(3,), (3, 3), (2, 5, 3)], ids=str)
@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_resets_episodes_and_transitions_are_those_of_the_environments(
    mode: AutoresetMode, is_wrapped: bool, lengths: tuple[int, ...], tmp_path: Path
) -> None:
    envs = [Counting(length) for length in lengths]
    env: Any = SyncVectorEnv([lambda env=env: env for env in envs], autoreset_mode=mode)  # type: ignore[misc]
    memory = ListMemory(4)
    learner = agent(tmp_path, memory)
    learner.train(Wrapper(env) if is_wrapped else env, first_update=999, timesteps=10 * len(lengths))
    for env, length in zip(envs, lengths, strict=True):
        ended = len(env.actions) // length
        begun = ended + (len(env.actions) % length > 0)  # the episode of the last timestep may be the last
        assert len(env.seeds) in ({begun, ended + 1} if mode is AutoresetMode.SAME_STEP else {begun})
    assert learner.global_timestep == sum(len(env.actions) for env in envs) == len(memory.rows)
    assert learner.global_episode == sum(len(env.actions) // env.length for env in envs)
    for row in memory.rows:  # the observation is (timestep, a number of the episode), the reward the next timestep
        (timestep, mark), (following, mark_then) = row["observation"], row["next_observation"]
        assert (following, mark_then, row["reward"]) == (timestep + 1, mark, timestep + 1)


def test_one_environment_in_several_places_is_refused() -> None:
    env = Counting()
    with pytest.raises(ArgumentError, match="holds the same environment object several times"):
        open_environment(SyncVectorEnv([lambda: env] * 2))
    open_environment(SyncVectorEnv([Counting] * 2))
