"""EnvPool's environments behind the same interface; reset steps are no transitions, and such a run is not exact."""

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from axonrl.environments.description import arguments_of
from axonrl.environments.pooled import PooledEnv
from axonrl.environments.vectors import NextStepVector, PooledVector
from axonrl.environments.wrapping import WrapperError
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.tests.environments.untyped import make, open_environment, opened, similar
from axonrl.tests.raising import raised


def pooled(env_id: str = "CartPole-v1", num_envs: int = 3, **kwargs: Any) -> Any:
    pytest.importorskip("envpool", reason="EnvPool is not installed, so nothing of it is tested: axonrl[envpool]")
    return make(env_id, num_envs, vectorization="envpool", **kwargs)


def test_without_envpool_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ArgumentError, match=r"EnvPool is not installed .*: pip install 'axonrl\[envpool\]'"):
        make("CartPole-v1", 2, vectorization="envpool")


def test_it_has_the_spaces_of_gymnasium() -> None:
    for env_id, dtype in (("CartPole-v1", np.float32), ("Pendulum-v1", np.float32), ("HalfCheetah-v5", np.float64)):
        env = pooled(env_id, num_threads=2)
        assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        assert env.single_observation_space.dtype == dtype
        if env_id != "HalfCheetah-v5":  # needs MuJoCo
            one = gymnasium.make(env_id)
            assert env.single_observation_space == one.observation_space
            assert env.single_action_space == one.action_space
        observations = env.reset(seed=1)[0]
        assert env.observation_space.contains(observations)
        action = env.action_space.sample()
        observations, rewards, *_ = env.step(action)
        assert rewards.dtype == np.float64
        assert env.observation_space.contains(observations)
    assert env.single_action_space == gymnasium.spaces.Box(-1.0, 1.0, (6,), np.float32)
    frames = pooled("Pong-v5", 1)
    assert frames.single_observation_space.shape == (4, 84, 84)
    assert frames.reset(seed=1)[0].dtype == np.uint8
    one = similar(frames)
    assert (one.spec.id, one.metadata["render_modes"]) == ("Pong-v5", [])


def test_seeds_decide_while_the_environments_are_new() -> None:
    env, other = pooled(), pooled(num_threads=2)
    first = env.reset(seed=[7, 8, 2**40])[0]
    assert first.tolist() == other.reset(seed=[7, 8, 2**40])[0].tolist()
    assert first.tolist() != env.reset()[0].tolist()  # the generators have moved on
    assert first[:2].tolist() == env.reset(seed=7)[0][:2].tolist()  # 7, 8 and 9
    raised(ValueError, env.reset, seed=[1], match="needs 3 seeds, got 1")
    raised(ValueError, env.reset, options={"reset_mask": np.ones(3, np.bool_)}, match="takes no options")


def test_reset_steps_are_no_transitions_and_last_observations_are_kept() -> None:
    env = open_environment(pooled(num_envs=2, max_episode_steps=10))
    assert env.skips_rows
    assert env.not_exact.startswith("EnvPool resets environments itself")
    assert not env.saves_state
    env.reset(None, [1, 2])
    ends: list[tuple[int, bool, bool]] = []
    lengths, acted_before = np.zeros(2, np.int64), np.ones(2, np.bool_)
    for step in range(40):
        played = env.step(np.array([1, step % 2]))
        acted = np.ones(2, np.bool_) if played.acted is None else played.acted
        lengths += acted
        assert acted[~acted_before].all()  # a reset takes one step
        ended = played.terminated | played.truncated
        for lane in np.flatnonzero(ended).tolist():
            falling = abs(played.observation[lane, 2]) > 12 * np.pi / 180
            at_limit = lengths[lane] == 10  # where EnvPool tells of no termination
            assert bool(played.terminated[lane]) == bool(falling and not at_limit)
            assert bool(played.truncated[lane]) == bool(at_limit)
            ends.append((int(lengths[lane]), bool(played.terminated[lane]), bool(played.truncated[lane])))
            lengths[lane] = 0
        assert (np.abs(played.observation[~acted]) <= 0.05).all()  # the first ones of the next episodes
        assert (played.reward[~acted] == 0).all()
        if ended.any():
            env.reset(ended, [3, 4])
        acted_before = acted
    assert (10, False, True) in ends
    assert any(terminated for _, terminated, _ in ends)


def test_normalisation_learns_each_observation_once_and_no_reset_step() -> None:
    wrapped = pooled(num_envs=2, max_episode_steps=4, wrappers=["normalize_observation", "normalize_reward"])
    plain = open_environment(pooled(num_envs=2, max_episode_steps=4))
    env = open_environment(wrapped)
    assert env.skips_rows
    env.reset(None, [1, 2])
    seen = [plain.reset(None, [1, 2])]
    for step in range(13):
        actions = np.array([step % 2, 1 - step % 2])
        played, plainly = env.step(actions), plain.step(actions)
        seen.append(plainly.observation)
        if plainly.acted is not None:
            assert (played.normalized_reward[~plainly.acted] == 0).all()
        if (ended := played.terminated | played.truncated).any():
            before = played.observation
            assert env.reset(ended, [3, 4]).tolist() == before.tolist()
            plain.reset(ended, [3, 4])
    observation, reward = wrapped.normalizers
    rows = np.concatenate(seen)
    assert observation.obs_rms.count == len(rows)
    np.testing.assert_allclose(observation.obs_rms.mean, rows.mean(0), rtol=1e-6)
    assert reward.return_rms.count == 2 * 13 - 2 * 2  # each was reset after 4 steps, and after 4 more


def test_an_evaluation_environment_follows_from_its_seed() -> None:
    env = pooled("Pendulum-v1", max_episode_steps=5, num_threads=2)
    one = similar(env)
    assert isinstance(one, PooledEnv)
    episodes = []
    for _ in range(2):
        observations = [one.reset(seed=11)[0]]
        while True:
            observation, reward, terminated, truncated, _ = one.step(np.array([0.5], np.float32))
            observations.append(observation)
            if terminated or truncated:
                break
        assert (len(observations), truncated, type(reward)) == (6, True, float)
        episodes.append(np.stack(observations).tolist())
    assert episodes[0] == episodes[1]
    assert type(similar(one).unwrapped).__name__ == "PendulumEnv"  # which renders
    assert similar(one).spec.max_episode_steps == 5


@pytest.mark.parametrize(
    ("env_id", "kwargs", "message"),
    [
        ("ALE/Pong-v5", {}, "EnvPool has no 'ALE/Pong-v5'; did you mean 'Pong-v5'"),
        ("CartPole-v1", {"sed": 1}, "CartPole-v1 could not be made by EnvPool with {'sed': 1}: TypeError"),
        ("CartPole-v1", {"seed": 1}, "takes no argument 'seed': the run determines it"),
    ],
)
def test_mistakes(env_id: str, kwargs: Any, message: str) -> None:
    raised(ArgumentError, pooled, env_id, **kwargs, match=message)


def test_wrappers_around_each_copy_are_refused() -> None:
    with pytest.raises(WrapperError, match="channels_first cannot be put around the copies of Pong-v5 with vectoriz"):
        pooled("Pong-v5", wrappers=["channels_first"])
    with pytest.raises(WrapperError, match="channels_last cannot be put around") as error:  # twice
        pooled("Pong-v5", wrappers=["channels_last", "channels_last"])
    assert error.value.index == 1
    with pytest.raises(ArgumentError, match=r"channels_last: the observation space must be images, .* got Box"):
        pooled(wrappers=["channels_last"])


def test_frames_of_games_are_seen_as_networks_take_them() -> None:
    plain, env = pooled("Pong-v5", 2), pooled("Pong-v5", 2, num_threads=2, wrappers=["channels_last"])
    assert env.single_observation_space == gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    frames, moved = (open_environment(one) for one in (plain, env))
    for action in (None, 2, 3):
        seen = [
            one.reset(None, [1, 2]) if action is None else one.step(np.full(2, action)).observation
            for one in (frames, moved)
        ]
        assert seen[1].flags.c_contiguous
        assert seen[1].tobytes() == np.moveaxis(seen[0], 1, -1).tobytes()
    one = similar(env)
    assert one.reset(seed=1)[0].tobytes() == np.moveaxis(similar(plain).reset(seed=1)[0], 0, -1).tobytes()
    assert arguments_of(env) == {
        "id": "Pong-v5",
        "kwargs": {"num_threads": 2},
        "wrappers": [{"kind": "channels_last"}],
        "vectorization": "envpool",
    }


DETAILS = ("name", "num_envs", "observation_space", "action_space", "not_exact")


def as_bytes(value: Any) -> Any:
    return None if value is None else (value.dtype, value.shape, value.tobytes())


def test_nothing_is_lost_where_checks_and_copies_are_left_out() -> None:
    """Results equal those of any vector environment bit for bit, and nobody changes them later."""
    for env_id in ("CartPole-v1", "HalfCheetah-v5", "Pong-v5", "FrozenLake-v1"):
        quick, slow = (open_environment(pooled(env_id, 2, max_episode_steps=12, num_threads=1)) for _ in range(2))
        assert type(quick) is PooledVector
        slow = NextStepVector(slow.env, **{name: getattr(slow, name) for name in DETAILS})
        kept = []
        for env in (quick, slow):
            env.reset(None, [1, 2])
        actions = quick.env.action_space.sample()
        if actions.dtype.kind == "i":
            actions = actions.astype(np.int32)
        for _ in range(30):
            ours, theirs = quick.step(actions), slow.step(actions)
            assert [as_bytes(value) for value in ours] == [as_bytes(value) for value in theirs]
            kept.append((ours, [as_bytes(value) for value in ours]))
            if (ended := ours.terminated | ours.truncated).any():
                for env in (quick, slow):
                    env.reset(ended, [3, 4])
        assert any(step.acted is not None for step, _ in kept)
        assert all([as_bytes(value) for value in step] == before for step, before in kept)


def test_numbers_that_are_not_finite_name_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    env = opened(pooled("Pendulum-v1", 2), [1, 2])
    actions, pool = np.zeros((2, 1), np.float32), env.env.pool
    results = [np.zeros((2, 3)), np.zeros(2), np.zeros(2, np.bool_), np.zeros(2, np.bool_)]
    for place, what in ((0, "an observation that is NaN or infinite"), (1, "the reward nan")):
        broken = [array.copy() for array in results]
        broken[place][1] = np.nan
        monkeypatch.setattr(pool, "step", lambda taken, broken=broken: broken)
        raised(NonFiniteError, env.step, actions, match=f"Pendulum-v1.step returned {what} in environment 1")
    raised(NonFiniteError, env.step, actions * np.nan, match=r"an action for .* is not finite")
