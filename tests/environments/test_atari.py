"""A game of the Arcade Learning Environment as experiments use it: wrappers by name, and each frame stored once."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from axonrl import Agent, RunConfig
from axonrl.core.protocols import Array
from axonrl.environments.wrapping import WrapperError
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.tests.environments.untyped import make, similar

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
    assert (env.observation_space.shape, env.observation_space.dtype) == ((84, 84, 4), np.uint8)
    first = played(env, 1, 40)
    played(env, 2, 7)
    np.testing.assert_array_equal(played(env, 1, 40), first)
    np.testing.assert_array_equal(first[10][..., 1:], first[11][..., :-1])  # the oldest frame comes first
    assert (first[10] != first[11]).any()


def test_a_step_is_four_frames_and_the_limit_counts_steps() -> None:
    limit = {"kind": "time_limit", "max_episode_steps": 3}
    env = make("ALE/Pong-v5", wrappers=[{"kind": "atari", "noop_max": 0}, *WRAPPERS[1:], limit], **OPTIONS)
    for one in (env, similar(env)):
        first = one.reset(seed=1)[0]
        assert (first[..., :3] == first[..., 3:]).all()
        assert [one.step(0)[3] for _ in range(3)] == [False, False, True]
        assert one.unwrapped.ale.getEpisodeFrameNumber() == 12


def test_what_atari_cannot_prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrapperError, match=r"atari: both the game and .* make the game with frameskip=1"):
        make("ALE/Pong-v5", wrappers=["atari"])
    with pytest.raises(WrapperError, match=r"atari: .* must be a game of the Arcade Learning Environment .*CartPole"):
        make("CartPole-v1", wrappers=["atari"])
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(WrapperError, match=r"atari: OpenCV is not installed: pip install 'axonrl\[atari\]'"):
        make("ALE/Pong-v5", frameskip=1, wrappers=["atari"])
    for env_id in [env_id for env_id in gymnasium.registry if env_id.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, env_id)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ValueError, match=r"ALE/Pong-v5 needs .* not installed: pip install 'axonrl\[atari\]'"):
        make("ALE/Pong-v5")


def test_an_agent_learns_the_same_from_frames_that_are_stored_once(tmp_path: Path) -> None:
    params = {"network": "nature_cnn", "hidden": [8], "epsilon": 0.5}
    values: list[Any] = []
    for frame_stack in (4, None):
        memory = ReplayMemory(SIZE, 4, frame_stack=frame_stack)
        agent = Agent(dqn.model_fn, memory, tmp_path / str(frame_stack), RunConfig(seed=3), params)
        agent.train(pong(), first_update=20, update_frequency=4, timesteps=60)
        values.append(agent.predict(np.arange(84 * 84 * 4, dtype=np.uint8).reshape(1, 84, 84, 4))["q_values"])
    np.testing.assert_array_equal(values[0], values[1])
