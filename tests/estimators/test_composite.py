"""Composite actions through the life of an agent: every kind of environment, exact resume, exports, callers' loops."""

import json
import logging
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from axonrl import Agent, RunConfig
from axonrl.errors import ArgumentError
from axonrl.estimators import export as exporting
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import a2c, sac
from axonrl.policies import Policy
from axonrl.run_dir.arrays import encode_arrays
from axonrl.tests.estimators.fakes import differences, snapshot

pytestmark = pytest.mark.usefixtures("traced_once")

NESTED = Dict(
    {
        "arm": Tuple([Box(-1, 1, (2,), np.float64), MultiBinary((2, 1))]),
        "gear": Discrete(3, start=5),
        "keys": MultiDiscrete(np.array([[2], [3]])),
    }
)
PARAMS = {"hidden": (8,), "optimizer": "sgd"}
QUIET = RunConfig(seed=3, progress=False, runtime="litert")


class Echo(gymnasium.Env[Any, Any]):
    """What it observes next follows from the action, all of it; episodes last seven timesteps."""

    observation_space = Box(-20, 20, (2,))
    action_space = NESTED

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.time += 1
        box, bits = action["arm"]
        seen = np.array([box.sum() + bits.sum(), int(action["gear"]) + 2 * action["keys"].sum()])
        return seen.astype(np.float32), float(box[0]), False, self.time == 7, {}


def copies(vector: Any) -> Any:
    return vector([Echo] * 2, autoreset_mode=AutoresetMode.DISABLED)


def test_policies_return_what_the_environment_takes(tmp_path: Path) -> None:
    agent = Agent(a2c.model_fn, BatchMemory(16), tmp_path / "run", QUIET, PARAMS)
    agent.train(Echo(), timesteps=16)
    observations = np.array([[0.5, -1], [3, 4]], np.float32)
    policy = Policy.load(agent.export(tmp_path / "exported"), seed=0)
    predicted = agent.predict(observations)
    assert sorted(predicted["action"]) == ["arm/0", "arm/1", "gear", "keys"]
    assert {"logits/arm/1", "logits/gear", "logits/keys", "mean/arm/0", "log_std/arm/0"} < predicted.keys()
    for one in (agent, policy):
        action = one.act(observations[0])
        assert NESTED.contains(action)
        assert int(action["gear"]) == predicted["action"]["gear"][0]
        np.testing.assert_array_equal(action["arm"][0], np.clip(predicted["action"]["arm/0"][0], -1, 1))
        assert NESTED.contains(one.act(observations[0], explore=True))
        both = one.act(observations)
        assert both["arm"][1].shape == (2, 2, 1)
    for name, value in policy.predict(observations)["action"].items():
        np.testing.assert_array_equal(value, predicted["action"][name])


class Still(Echo):
    """Echo without its memory, for any actions."""

    def __init__(self, action_space: Any) -> None:
        self.action_space = action_space

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 0.0, False, True, {}


PLAIN = (NESTED["gear"], NESTED["keys"], MultiBinary((2, 1)))


@pytest.mark.parametrize("space", [*PLAIN, NESTED], ids=str)
def test_an_export_may_choose_another_of_the_best_actions(space: Any, tmp_path: Path, monkeypatch: Any) -> None:
    agent = Agent(a2c.model_fn, BatchMemory(2), tmp_path / "run", QUIET, PARAMS).train(Still(space), timesteps=2)
    agent.set_weights({name: np.zeros_like(array) for name, array in agent.get_weights().items()})

    def nearly(array: Any) -> Any:
        return array + 1e-6 * np.resize([1, 5, 3, 4, 2], array.shape).astype(np.float32)

    monkeypatch.setattr(
        exporting, "encode_arrays", lambda arrays: encode_arrays({name: nearly(one) for name, one in arrays.items()})
    )
    agent.export(tmp_path / "exported")
    outputs = json.loads((tmp_path / "exported" / "parity.json").read_text())["formats"]["litert"]["outputs"]
    ties = {name: one for name, one in outputs.items() if "ties" in one and not name.startswith("first")}
    assert ties == {name: {"equal": 0, "ties": 256} for name in ties} != {}


@pytest.mark.parametrize("space", PLAIN, ids=str)
def test_an_export_that_chooses_worse_actions_is_refused(space: Any, tmp_path: Path, monkeypatch: Any) -> None:
    agent = Agent(a2c.model_fn, BatchMemory(2), tmp_path / "run", QUIET, PARAMS).train(Still(space), timesteps=2)
    predict = Policy.predict

    def other(policy: Policy, observations: Any) -> Any:
        predictions = predict(policy, observations)
        return {**predictions, "action": predictions["action"] ^ 1}

    monkeypatch.setattr(Policy, "predict", other)
    with pytest.raises(ValueError, match=r"the LiteRT policy differs from the agent: action differs in 25. of 256"):
        agent.export(tmp_path / "exported")


def test_a_caller_gets_nested_actions_and_trains_as_the_agent_does(tmp_path: Path) -> None:
    Agent(a2c.model_fn, BatchMemory(16), tmp_path / "agent", QUIET, PARAMS).train(Echo(), timesteps=33)
    caller, echo = Agent(a2c.model_fn, BatchMemory(16), tmp_path / "caller", QUIET, PARAMS), Echo()
    seeds = iter(_seeds(tmp_path / "agent"))
    with caller.interact(Echo.observation_space, NESTED) as interaction:
        observation, _ = echo.reset(seed=next(seeds))
        for _ in range(33):
            observation, reward, terminated, truncated, _ = echo.step(interaction.act(observation))
            interaction.observe(reward, terminated, truncated, observation)
            if truncated:
                observation, _ = echo.reset(seed=next(seeds))
    theirs, ours = (Agent(a2c.model_fn, None, tmp_path / name).get_weights() for name in ("caller", "agent"))
    assert differences(theirs, ours) == []


def _seeds(model_dir: Path) -> list[int]:
    from axonrl.run_dir.generators import episode_seed

    return [episode_seed(3, 0, index) for index in range(6)]


def test_a_compiled_program_trains_to_the_same_weights(tmp_path: Path) -> None:
    agent = Agent(a2c.model_fn, BatchMemory(16), tmp_path / "traced", QUIET, PARAMS)
    directory = agent.compile(tmp_path / "compiled", Echo())
    compiled = Agent(None, BatchMemory(16), tmp_path / "run", QUIET, compiled=directory)
    for one in (agent, compiled):
        one.train(Echo(), timesteps=34)
    assert differences(snapshot(tmp_path / "traced"), snapshot(tmp_path / "run")) == []


def test_others_refuse_by_name(tmp_path: Path) -> None:
    message = "SAC needs a bounded Box of floats or a Discrete space as action space, got Dict"
    with pytest.raises(ArgumentError, match=message):
        Agent(sac.model_fn, ReplayMemory(100, 8), tmp_path, QUIET).train(Echo(), timesteps=10)


@pytest.mark.parametrize("make", [Echo, lambda: copies(AsyncVectorEnv)], ids=["single", "async"])
def test_a_run_is_resumed_exactly(make: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def train(name: str, timesteps: int) -> Agent:
        agent = Agent(a2c.model_fn, BatchMemory(16), tmp_path / name, QUIET, PARAMS)
        env = make()
        agent.train(env, max_timesteps=timesteps)
        env.close()
        return agent

    train("through", 58)
    train("cut", 26)  # in the middle of a rollout and of an episode
    with caplog.at_level(logging.WARNING, logger="axonrl"):
        agent = train("cut", 58)
    assert not caplog.records  # it is exact
    assert differences(snapshot(tmp_path / "through"), snapshot(tmp_path / "cut")) == []
    assert agent.evaluate(Echo(), episodes=2)["episode_length_mean"] == 7
