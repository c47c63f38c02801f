"""Memories that look at the environment: goals in hindsight, and demonstrations from files, through an Agent."""

import itertools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from axonrl import environments
from axonrl.environments.bit_flip import BitFlip
from axonrl.errors import ArgumentError
from axonrl.memories import DemonstrationMemory, HindsightMemory
from axonrl.models import dqn
from axonrl.policies import Policy
from axonrl.tests.environments.test_wrapping import Reach
from axonrl.tests.environments.untyped import opened, registered
from axonrl.tests.estimators.fakes import agent, differences, snapshot
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

make: Any = environments.make
ID = "axonrl/BitFlip-v0"
PARAMS = {"hidden": [8]}


def hindsight(**arguments: Any) -> HindsightMemory:
    return HindsightMemory(200, 8, **{"n_step": 2, "discount": 0.9, **arguments})


def one(folder: Path, memory: Any, **config: Any) -> Any:
    return agent(folder, memory, dqn.model_fn, PARAMS, **config)


def test_hindsight_of_normalised_observations(tmp_path: Path) -> None:
    """Goals are as the environment has them, and so are the rewards of those that were reached; the rest is not."""
    wrappers = ["normalize_observation"]
    with registered("Reach-v0", Reach):
        whole = one(tmp_path / "whole", hindsight(n_step=1, sampler="prioritized"))
        whole.train(make("Reach-v0", 2, wrappers=wrappers), 20, 2, timesteps=120)
        for _ in range(3):
            memory = hindsight(n_step=1, sampler="prioritized")
            parts = one(tmp_path / "parts", memory)
            parts.train(make("Reach-v0", 2, wrappers=wrappers), 20, 2, timesteps=40)
        assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "parts")) == []
        assert parts.evaluate(make("Reach-v0", wrappers=wrappers), episodes=3)["episodes"] == 3
        with pytest.raises(ArgumentError, match="normalize_observation") as caught:
            parts.evaluate(make("Reach-v0"), episodes=3)
        assert caught.value.argument == "env"
        policy = Policy.load(parts.export(tmp_path / "exported"))
        raw = opened(make("Reach-v0", 8), range(8)).step(np.arange(8, dtype=np.int32) % 2).observation
    batches: list[Any] = [memory.sample() for _ in range(20)]
    reached = [batch["next_observation"]["achieved_goal"] for batch in batches]
    goals = [batch["observation"]["desired_goal"] for batch in batches]
    assert np.min(goals) < 0  # which no environment asks for
    rewards = [batch["reward"] for batch in batches]
    assert (np.array(rewards) == (np.array(reached) == np.array(goals))[..., 0] - 1.0).all()
    seen = np.concatenate([batch["observation"]["observation"] for batch in batches])
    assert 0.5 < np.abs(seen[:, 0]).max() < 10  # the environment has 1000 and more
    assert not seen[:, 1].any()
    assert parts.act(raw).tolist() == policy.act(raw).tolist()
    features = {name: part.copy() for name, part in raw.items()}
    (statistics,) = snapshot(tmp_path / "parts")["statistics"].values()
    mean, deviation = statistics["obs_rms"]["mean"], np.sqrt(statistics["obs_rms"]["var"] + 1e-8)
    features["observation"] = ((raw["observation"] - mean[:2]) / deviation[:2]).astype(np.float32)
    features["observation"][:, 1] = 0  # it never varied
    features["time/0"] = ((raw["time/0"] - mean[2]) / deviation[2]).astype(np.float32)
    assert policy.predict(raw)["q_values"].tolist() == parts.predict(features)["q_values"].tolist()


def test_a_caller_brings_the_function(tmp_path: Path) -> None:
    env = BitFlip(4)
    spaces = env.observation_space, env.action_space
    with (
        pytest.raises(ArgumentError, match="compute_reward") as caught,
        one(tmp_path / "without", hindsight()).interact(*spaces, first_update=20),
    ):
        pass
    assert caught.value.argument == "compute_reward"
    memory = hindsight(compute_reward=env.compute_reward, compute_terminated=env.compute_terminated)
    with one(tmp_path / "with", memory).interact(*spaces, first_update=20, update_frequency=2) as interaction:
        observation, _ = env.reset(seed=0)
        for _ in range(40):
            observation, *results, _ = env.step(int(interaction.act(observation)))
            interaction.observe(*results, observation)
            if results[1] or results[2]:
                observation, _ = env.reset()
        assert interaction.session.global_step == 11


def test_environments_without_goals(tmp_path: Path) -> None:
    caught = raised(ArgumentError, one(tmp_path, hindsight()).train, "CartPole-v1", 20, timesteps=30)
    assert str(gymnasium.make("CartPole-v1").observation_space) in str(caught)
    assert not (tmp_path / "run.json").exists()


def test_rewards_that_a_wrapper_changes(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="wrappers that change rewards"):
        one(tmp_path, hindsight()).train(make(ID, bits=4, wrappers=["normalize_reward"]), 20, timesteps=30)


def demonstrations(path: Path, bits: int = 4) -> Path:
    """Episodes of an expert, written as a user would."""
    env, rows = BitFlip(bits), []
    for seed in range(6):
        observation, _ = env.reset(seed=seed)
        for count in itertools.count():
            action = int(np.flatnonzero(observation["observation"] != observation["desired_goal"])[0])
            following, reward, terminated, truncated, _ = env.step(action)
            rows.append((observation, action, reward, terminated, truncated, following))
            observation = following
            if terminated:
                break
            assert count < bits
    columns: dict[str, Any] = {}
    names = ("observation", "action", "reward", "terminated", "truncated", "next_observation")
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        if isinstance(values[0], dict):
            columns |= {f"{name}/{part}": np.stack([value[part] for value in values]) for part in values[0]}
        else:
            columns[name] = np.array(values)
    np.savez(path, **columns)
    return path


DQFD = {**PARAMS, "margin_weight": 1.0, "n_step_weight": 1.0, "l2": 1e-5, "loss": "squared"}


def test_demonstrations_resume_exactly(tmp_path: Path) -> None:
    path = demonstrations(tmp_path / "expert.npz")

    def train(folder: str, timesteps: int) -> Any:
        memory = DemonstrationMemory(100, 8, demonstrations=str(path), n_step=3, sampler="prioritized")
        trained = agent(tmp_path / folder, memory, dqn.model_fn, DQFD)
        return trained.train(make(ID, bits=4), 10, 2, timesteps=timesteps)

    train("whole", 60)
    train("parts", 30)
    trained = train("parts", 30)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "parts")) == []
    assert trained.global_step > 0
    recorded = (tmp_path / "parts" / "run.json").read_text()
    assert "demonstrations" in recorded
    assert str(path) in recorded


def test_demonstrations_of_another_environment(tmp_path: Path) -> None:
    path = demonstrations(tmp_path / "expert.npz", bits=5)
    trained = one(tmp_path / "run", DemonstrationMemory(100, 8, demonstrations=path))
    with pytest.raises(ArgumentError, match=r"expert\.npz: episode 0: observation/achieved_goal") as caught:
        trained.train(make(ID, bits=4), 10, timesteps=20)
    assert caught.value.argument == "path"
    plain = agent(tmp_path / "plain", None, dqn.model_fn, DQFD)
    with pytest.raises(ArgumentError, match="DemonstrationMemory"):
        plain.train(make(ID, bits=4), 10, timesteps=20)
