"""A game of the Arcade Learning Environment as experiments use it: wrappers by name, and each frame stored once."""

from pathlib import Path
from typing import Any

import numpy as np

from axonrl import Agent, RunConfig
from axonrl.contracts import Array
from axonrl.environments import make
from axonrl.memories import ReplayMemory
from axonrl.models import dqn

OPTIONS: dict[str, Any] = {"frameskip": 1, "repeat_action_probability": 0.0}
WRAPPERS: list[Any] = ["atari", {"kind": "frame_stack", "stack_size": 4}, "channels_last"]
SIZE = 500


def pong() -> Any:
    return make("ALE/Pong-v5", wrappers=WRAPPERS, **OPTIONS)


def played(env: Any, seed: int, timesteps: int) -> list[Array]:
    """Observations of the beginning of an episode, with the same actions each time."""
    seen = [env.reset(seed=seed)[0]]
    return seen + [env.step(timestep % 6)[0] for timestep in range(timesteps)]


def test_observations_are_stacks_that_follow_from_the_seed() -> None:
    env = pong()
    assert env.observation_space.shape == (84, 84, 4)
    assert env.observation_space.dtype == np.uint8
    first = played(env, 1, 40)
    played(env, 2, 7)
    np.testing.assert_array_equal(played(env, 1, 40), first)
    np.testing.assert_array_equal(first[10][..., 1:], first[11][..., :-1])  # the oldest frame comes first
    assert (first[10] != first[11]).any()


def test_an_agent_learns_the_same_from_frames_that_are_stored_once(tmp_path: Path) -> None:
    params = {"network": "nature_cnn", "hidden": [8], "epsilon": 0.5}
    values: list[Any] = []
    for frame_stack in (4, None):
        memory = ReplayMemory(SIZE, 4, frame_stack=frame_stack)
        agent = Agent(dqn.model_fn, memory, tmp_path / str(frame_stack), RunConfig(seed=3), params)
        agent.train(pong(), first_update=20, update_frequency=4, timesteps=60)
        values.append(agent.predict(np.arange(84 * 84 * 4, dtype=np.uint8).reshape(1, 84, 84, 4))["q_values"])
    np.testing.assert_array_equal(values[0], values[1])
