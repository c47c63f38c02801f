"""Training with normalisation by name: what is saved, brought back, evaluated with and exported."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward

from axonrl import Agent
from axonrl.environments import make, open_environment, similar
from axonrl.environments.statistics import frozen, statistics_of
from axonrl.errors import ArgumentError
from axonrl.hooks import EvaluationHook
from axonrl.memories import ReplayMemory
from axonrl.runtimes import Policy
from axonrl.tests.estimators.fakes import At, Counting, ListMemory, Notes, agent, differences, failing, snapshot
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

BOTH = ["normalize_observation", "normalize_reward"]


def learner(model_dir: Path) -> Agent:
    return agent(model_dir, ReplayMemory(200, batch_size=8), seed=3)


def cart(num_envs: int = 1, wrappers: Any = BOTH) -> Any:
    return make("CartPole-v1", None if num_envs == 1 else num_envs, wrappers=wrappers)


def moments_of(state: Any, kind: str = "obs_rms") -> Any:
    (found,) = (one[kind] for one in state["statistics"].values() if kind in one)
    return found


# -- saved and brought back -------------------------------------------------------------------------------------------


def test_it_goes_on_in_another_or_in_the_same_environment(tmp_path: Path) -> None:
    """What else was done in an environment does not count, and one process goes on like two."""
    learner(tmp_path / "whole").train(cart(4), 40, 4, timesteps=240)
    env = cart(4)
    parts = learner(tmp_path / "parts")
    parts.train(env, 40, 4, timesteps=120)
    used = open_environment(env)
    used.reset(None, [9] * 4)
    used.step(np.zeros(4, np.int32))
    parts.train(env, 40, 4, timesteps=120)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "parts")) == []


@pytest.mark.parametrize("num_envs", [1, 2])
def test_learners_see_normalised_rewards_and_hooks_those_of_the_environment(tmp_path: Path, num_envs: int) -> None:
    """CartPole pays 1 at every timestep: its discounted sums are 1, which is no deviation at all, then 1.99."""
    notes, memory = Notes(), ListMemory(8)
    agent(tmp_path, memory).train(cart(num_envs), 40, 4, timesteps=100, hooks=[notes])
    stored = [float(row["reward"]) for row in memory.rows]
    assert stored[: 2 * num_envs] == pytest.approx([0.0] * num_envs + [1 / 0.495] * num_envs)
    assert all(facts.reward.tolist() == [1.0] * num_envs for facts in notes.facts["after_timestep"])
    episodes = notes.facts["after_episode"]
    assert episodes
    assert all(facts.episode_return == facts.length for facts in episodes)


def refused(act: Callable[..., Any], *given: Any, names: Sequence[str], **more: Any) -> None:
    """The call is refused for its environment, and the wrappers are named."""
    with pytest.raises(ArgumentError) as caught:
        act(*given, **more)
    assert caught.value.argument == "env"
    assert all(name in str(caught.value) for name in names)


def gymnasiums() -> Any:
    """In Gymnasium's wrapper, whose observations have the space of an environment that has no bounds."""
    return NormalizeObservation(Counting())


def test_resuming_without_what_normalised_is_refused(tmp_path: Path) -> None:
    """What is missing is named, also where the spaces differ."""
    learner(tmp_path).train(cart(2), 40, 4, timesteps=50)
    before = snapshot(tmp_path)
    for wrappers, names in (
        ((), ("normalize_observation", "normalize_reward")),
        (["normalize_observation"], ("normalize_reward",)),
        (["normalize_reward"], ("normalize_observation",)),
    ):
        refused(learner(tmp_path).train, cart(2, wrappers), 40, 4, timesteps=50, names=names)
    assert differences(before, snapshot(tmp_path)) == []


def test_gymnasium_s_wrapper_is_missed_although_the_spaces_are_equal(tmp_path: Path) -> None:
    agent(tmp_path).train(gymnasiums(), 8, timesteps=20)
    assert gymnasiums().observation_space == Counting.observation_space
    names = ["Gymnasium's NormalizeObservation"]
    refused(agent(tmp_path).train, Counting(), 8, timesteps=20, names=names)
    refused(agent(tmp_path).evaluate, Counting(), 1, names=names)
    hook = EvaluationHook(20, 1, env=Counting())
    refused(agent(tmp_path).train, gymnasiums(), 8, timesteps=20, hooks=hook, names=names)
    agent(tmp_path / "plain").train(Counting(), 8, timesteps=20)
    refused(agent(tmp_path / "plain").evaluate, gymnasiums(), 1, names=names)


def test_a_caller_s_own_loop_cannot_go_on_without_it(tmp_path: Path) -> None:
    env = cart()
    learner(tmp_path).train(env, 40, 4, timesteps=50)
    with pytest.raises(ArgumentError) as caught, learner(tmp_path).interact(env.observation_space, env.action_space):
        pass
    assert caught.value.argument == "observation_space"
    assert "normalize_observation and normalize_reward" in str(caught.value)


def test_the_same_wrappers_with_other_settings_are_refused(tmp_path: Path) -> None:
    learner(tmp_path).train(cart(), 40, 4, timesteps=50)
    before = snapshot(tmp_path)
    other = cart(wrappers=["normalize_observation", {"kind": "normalize_reward", "discount": 0.9}])
    message = "normalize_reward of the run's environment has discount=0.99, this one's has discount=0.9"
    with pytest.raises(ValueError, match=message):
        learner(tmp_path).train(other, 40, 4, timesteps=50)
    with pytest.raises(ValueError, match=message):
        learner(tmp_path).evaluate(other, episodes=1)
    assert differences(before, snapshot(tmp_path)) == []


def test_gymnasium_s_wrappers_with_other_settings_are_refused(tmp_path: Path) -> None:
    def rewarded(gamma: float) -> Any:
        return NormalizeReward(cart(wrappers=()), gamma=gamma)

    learner(tmp_path).train(rewarded(0.99), 40, 4, timesteps=50)
    message = r"NormalizeReward of the run's environment has gamma=0\.99, this one's has gamma=0\.5"
    with pytest.raises(ValueError, match=message):
        learner(tmp_path).train(rewarded(0.5), 40, 4, timesteps=50)


# -- evaluation -------------------------------------------------------------------------------------------------------


def test_evaluation_takes_the_statistics_of_training_and_the_rewards_of_the_environment(tmp_path: Path) -> None:
    """An episode of CartPole pays 1 at every timestep. As many copies as one likes are evaluated in."""
    learner(tmp_path).train(cart(2), 40, 4, timesteps=100)
    first = learner(tmp_path).evaluate(cart(8), episodes=8)
    assert first["episode_return_mean"] == first["episode_length_mean"]
    assert learner(tmp_path).evaluate(cart(), episodes=8) == first
    env = cart(2)
    evaluator = learner(tmp_path)
    assert evaluator.evaluate(env, episodes=8) == evaluator.evaluate(env, episodes=8) == first
    assert moments_of({"statistics": statistics_of(env)})["count"] == moments_of(snapshot(tmp_path))["count"]
    # It is as it would be with these statistics, and with others it is not.
    other = learner(tmp_path)
    newest = other._run.policies.newest()
    assert newest is not None
    moments = moments_of({"statistics": newest.statistics})
    moments["mean"] = moments["mean"] + np.array([0.0, 3.0, 0.0, 3.0])
    assert other.evaluate(cart(), episodes=8) != first


def test_an_evaluation_during_training_sees_what_training_sees_and_changes_nothing(tmp_path: Path) -> None:
    """At two times, with the statistics of each; the agent need not be told of an environment."""
    env = cart(2)
    found: list[Any] = []

    def evaluate(session: Any) -> None:
        before = statistics_of(env)
        results = session.evaluate(episodes=5, seed=1)
        assert differences(before, statistics_of(env)) == []
        assert session.evaluate(episodes=5, seed=1) == results
        assert results["episode_return_mean"] == results["episode_length_mean"]
        batched = open_environment(similar(env))
        raw = open_environment("CartPole-v1").reset(None, [7])
        moments = moments_of({"statistics": before})
        expected = ((raw - moments["mean"]) / np.sqrt(moments["var"] + 1e-8)).astype(np.float32)
        assert batched.reset(None, [7]).tolist() == expected.tolist()  # type: ignore[union-attr]
        found.append(moments["count"])

    hooks = [At("after_update", 50, evaluate), At("after_update", 100, evaluate)]
    learner(tmp_path / "watched").train(env, 40, 4, timesteps=120, hooks=hooks)
    assert 0 < found[0] < found[1]
    learner(tmp_path / "alone").train(cart(2), 40, 4, timesteps=120)
    assert differences(snapshot(tmp_path / "watched"), snapshot(tmp_path / "alone")) == []


def test_evaluation_needs_what_normalises_observations_and_not_what_normalises_rewards(tmp_path: Path) -> None:
    learner(tmp_path).train(cart(2), 40, 4, timesteps=100)
    first = learner(tmp_path).evaluate(cart(4), episodes=6)
    assert learner(tmp_path).evaluate(cart(4, ["normalize_observation"]), episodes=6) == first
    for env in (cart(4, ()), cart(4, ["normalize_reward"]), "CartPole-v1"):
        refused(learner(tmp_path).evaluate, env, 1, names=["normalize_observation"])


def test_statistics_of_each_copy_need_as_many_copies(tmp_path: Path) -> None:
    def copies(number: int) -> Any:
        return make("CartPole-v1", num_envs=number, wrappers=["gymnasium.wrappers:NormalizeObservation"])

    one, name = agent(tmp_path).train(copies(2), 8, timesteps=20), "Gymnasium's NormalizeObservation"
    assert one.evaluate(copies(2), 1)["episodes"] == 1
    for number, here in ((1, name), (3, rf"{name} \(3 times\)")):
        message = rf"trained with {name} \(2 times\), this environment has {here}: .*\. Use as many copies; "
        raised(ArgumentError, one.evaluate, copies(number), 1, match=message)


def test_gymnasium_s_wrapper_of_an_evaluation_takes_over_what_the_training_s_has_learnt(tmp_path: Path) -> None:
    """Of an Agent and of a hook; its own statistics, of other observations, do not count."""
    found = []
    for name, env in (("fresh", gymnasiums()), ("used", gymnasiums())):
        if name == "used":
            for seed in range(20):
                env.reset(seed=seed)
        one, notes = agent(tmp_path / name), Notes()
        one.train(gymnasiums(), 8, timesteps=20, hooks=[EvaluationHook(10, 3, env=env), notes])
        kept = [dict(state["obs_rms"]) for state in statistics_of(env).values()]
        assert differences(kept[0], moments_of(snapshot(tmp_path / name))) == []
        found.append([facts.results for facts in notes.facts["after_evaluation"]])
        found[-1].append(one.evaluate(env, 3))
    assert len(found[0]) == 3
    assert found[0] == found[1]


def test_an_environment_given_to_the_hook_is_evaluated_in_like_the_training_s_own(tmp_path: Path) -> None:
    def evaluations(name: str, env: Any) -> list[Any]:
        notes, hook = Notes(), EvaluationHook(40, episodes=3, env=env)
        learner(tmp_path / name).train(cart(2), 40, 4, timesteps=120, hooks=[hook, notes])
        return [facts.episode_returns for facts in notes.facts["after_evaluation"]]

    assert evaluations("given", cart(3)) == evaluations("made", None)
    assert evaluations("rewards", cart(3, ["normalize_observation"])) == evaluations("again", None)
    for env in ("CartPole-v1", cart(wrappers=["normalize_reward"])):
        hook, names = EvaluationHook(40, episodes=3, env=env), ["normalize_observation"]
        refused(learner(tmp_path / "other").train, cart(2), 40, 4, timesteps=120, hooks=hook, names=names)
        assert not (tmp_path / "other" / "run.json").exists()  # it is refused when the run begins


def test_a_kept_policy_is_kept_with_the_statistics_of_its_time(tmp_path: Path) -> None:
    def means() -> dict[str, list[float]]:
        names: tuple[Any, ...] = ("best", "last", 2)  # 1 is from before the first timestep
        exported = {str(name): one.export(tmp_path / str(name), policy=name) for name in names}
        return {
            name: json.loads((path / "policy.json").read_text())["normalization"]["mean"]["values"]
            for name, path in exported.items()
        }

    one = learner(tmp_path / "run")
    keep = At("after_timestep", 100, lambda session: session.save_policy("best", {}))
    one.train(cart(), 40, 4, timesteps=100, hooks=[keep])
    first = means()
    assert first["best"] == first["last"] == first["2"]
    results = one.evaluate(cart(), episodes=5, seed=1, policy="best")

    one.train(cart(), 40, 4, timesteps=300)
    second = means()
    assert second["best"] == second["2"] == first["best"]
    assert second["last"] != first["last"]
    assert learner(tmp_path / "run").evaluate(cart(), episodes=5, seed=1, policy="best") == results


def test_a_first_session_that_fails_leaves_nothing_learnt(tmp_path: Path) -> None:
    """The environment has learnt in it; the run begins anew, and so do its statistics."""
    env, one = cart(), learner(tmp_path / "twice")
    with pytest.raises(RuntimeError, match="no"):
        one.train(env, 40, 4, timesteps=60, hooks=[At("after_timestep", 30, failing("no"))])
    one.train(env, 40, 4, timesteps=60)
    learner(tmp_path / "once").train(cart(), 40, 4, timesteps=60)
    assert differences(snapshot(tmp_path / "twice"), snapshot(tmp_path / "once")) == []


# -- export -----------------------------------------------------------------------------------------------------------


def test_the_exported_policy_acts_like_the_agent_on_normalised_observations(tmp_path: Path) -> None:
    """Bit for bit, without TensorFlow: it is given what the bare environment returns."""
    limit = {"kind": "time_limit", "max_episode_steps": 30}
    trained = agent(tmp_path / "run").train(cart(4, [*BOTH, limit]), 40, 4, timesteps=200)
    policy = Policy.load(trained.export(tmp_path / "exported"))
    moments = moments_of(snapshot(tmp_path / "run"))
    assert policy.description["normalization"]["mean"]["values"] == moments["mean"].tolist()
    rows = np.random.default_rng(0).uniform(-13, 13, (50, 4))  # more than 10 is clipped
    raws = (moments["mean"] + rows * np.sqrt(moments["var"])).astype(np.float32)
    env = cart(wrappers=["normalize_observation", limit])
    (statistics,) = (one for one in snapshot(tmp_path / "run")["statistics"].values() if "obs_rms" in one)
    with frozen(env, {"0": statistics}):
        seen = env.get_wrapper_attr("normalizers").observation(raws)
    assert np.abs(seen).max() == 10.0
    expected = trained.predict(seen)
    found = policy.predict(raws)
    assert found["values"].tolist() == expected["values"].tolist()
    assert found["action"].tolist() == expected["action"].tolist()
    assert set(expected["action"].tolist()) == {0, 1}
    assert policy.predict(raws.astype(np.float64))["values"].tolist() == expected["values"].tolist()
    for bad in (np.inf, np.nan, 1e300):
        with pytest.raises(ValueError, match="observation has NaN or infinity"):
            policy.predict(np.where(np.arange(4) == 1, bad, raws[:1].astype(np.float64)))


def test_a_checkpoint_before_the_first_timestep_can_be_exported(tmp_path: Path) -> None:
    """Nothing is known then, and observations stay what they are."""
    made = agent(tmp_path / "run")
    made.check(cart(2), 40, 4)
    policy = Policy.load(made.export(tmp_path / "exported"))
    raws = np.random.default_rng(0).uniform(-1, 1, (5, 4)).astype(np.float32)
    np.testing.assert_allclose(policy.predict(raws)["values"], made.predict(raws)["values"], rtol=1e-6)
    assert dataclasses.asdict(made._trainer.counters) == {"global_step": 0, "global_timestep": 0, "global_episode": 0}
