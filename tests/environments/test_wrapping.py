"""Wrappers by name: what they do to an environment, what copies share, and errors."""

import pickle
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics

from axonrl.core.protocols import ACTION_MASK
from axonrl.environments.description import arguments_of
from axonrl.environments.normalization import WrappedVector
from axonrl.environments.normalizers import Moments, NormalizeObservation, NormalizeReward
from axonrl.environments.statistics import statistics_of, taken_over
from axonrl.environments.wrappers import mask_from_info
from axonrl.environments.wrapping import WrapperError, Wrapping
from axonrl.errors import ArgumentError
from axonrl.tests.environments.untyped import make, open_environment, opened, registered, similar
from axonrl.tests.raising import raised


class Line(gymnasium.Env[Any, Any]):
    """Observes the timestep and ten times that, in float64; pays 1, 2, 3, ...; ends after ``length`` timesteps."""

    metadata: Any = {"render_modes": ["human", "rgb_array"], "render_fps": 30}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(self, length: int = 3, space: Any = None, actions: Any = None, render_mode: Any = None) -> None:
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64) if space is None else space
        self.action_space = Discrete(2) if actions is None else actions
        self.length, self.timestep, self.render_mode = length, 0, render_mode
        self.actions: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.timestep = 0
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        self.timestep += 1
        return self.observation(), float(self.timestep), self.timestep == self.length, False, {}

    def observation(self) -> Any:
        if self.observation_space.shape == (2,):
            return np.array([self.timestep, 10.0 * self.timestep])
        return np.full(self.observation_space.shape, self.timestep, self.observation_space.dtype)


class Reach(gymnasium.Env[Any, Any]):
    """Go left or right from 0 to a goal, 1 to 3, in 6 timesteps. Observes parts of many kinds, some nested."""

    observation_space: Any = Dict(
        {
            "achieved_goal": Box(-np.inf, np.inf, (1,)),
            "desired_goal": Box(-np.inf, np.inf, (1,)),
            "image": Box(0, 255, (1, 1, 1), np.uint8),
            "observation": Box(-np.inf, np.inf, (2,), np.float64),
            "time": Tuple((Box(0, 600, (), np.int64), Discrete(2))),
        }
    )
    action_space: Any = Discrete(2)
    metadata: Any = {"render_modes": []}  # noqa: RUF012 (as Gymnasium has it)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.timestep = self.position = 0
        self.goal = int(self.np_random.integers(1, 4))
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        self.timestep += 1
        self.position += 1 if action else -1
        reached = self.position == self.goal
        return self.observation(), float(reached) - 1, reached, self.timestep == 6, {}

    def observation(self) -> Any:
        return {
            "achieved_goal": np.array([self.position], np.float32),
            "desired_goal": np.array([self.goal], np.float32),
            "image": np.full((1, 1, 1), self.timestep, np.uint8),
            "observation": np.array([1000.0 + self.position, 7.1]),
            "time": (np.array(100 * self.timestep), self.timestep % 2),
        }

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return (achieved_goal == desired_goal).all(axis=-1) - 1.0


@pytest.fixture(autouse=True)
def line() -> Iterator[None]:
    with registered("Line-v0", Line), registered("Reach-v0", Reach):
        yield


def test_moments_of_large_float32_numbers_are_precise() -> None:
    rows = (10_000 + np.random.default_rng(0).standard_normal((1000, 3))).astype(np.float32)
    moments = Moments((3,))
    for start in range(0, 1000, 8):
        moments.update(rows[start : start + 8])
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(moments.var, rows.astype(np.float64).var(axis=0), rtol=1e-8)


def test_observations_by_hand() -> None:
    normalize = NormalizeObservation(Box(-np.inf, np.inf, (1,)), clip=1.2)
    assert normalize.space == Box(-1.2, 1.2, (1,), np.float32)
    assert normalize(np.array([[0.5]], np.float32)).tolist() == [[0.5]]  # nothing is known yet
    normalize.learn(np.array([[1.0], [3.0], [8.0]], np.float32))
    found = normalize(np.array([[4.0], [1.0], [8.0]], np.float32))
    assert found.dtype == np.float32
    assert found.ravel().tolist() == pytest.approx([0.0, -3 / np.sqrt(26 / 3), 1.2])  # the last is 1.36, clipped


@pytest.mark.parametrize("kind", ["one", "copies", "vector"])
def test_parts_of_a_dict_by_hand(kind: str) -> None:
    """Positions 0, 1, 2 and times 0, 100, 200: the last is 1 / sqrt(2 / 3) deviations above the mean."""
    wrappers = ["normalize_observation"]
    env = make("Reach-v0", None if kind == "one" else 2, wrappers=() if kind == "vector" else wrappers)
    if kind == "vector":
        env = WrappedVector(env, Wrapping(wrappers).normalizers(Reach.observation_space, 2), [])
    space = env.observation_space if kind == "one" else env.single_observation_space
    number = Box(-10, 10, (), np.float32)
    assert space["observation"] == Box(-10, 10, (2,), np.float32)
    assert space["time"] == Tuple((number, Discrete(2)))
    assert {name: space[name] for name in ("image", *GOALS)} == {
        name: Reach.observation_space[name] for name in ("image", *GOALS)
    }
    found = [env.reset(seed=0 if kind == "one" else [0, 0])[0]]
    found += [env.step(1 if kind == "one" else [1, 1])[0] for _ in range(2)]
    batched = opened(make("Reach-v0", 2, wrappers=wrappers), [0, 0])
    same = [batched.step(np.ones(2, np.int32)).observation for _ in range(2)]
    for timestep, (wanted, parts) in enumerate(zip((0.0, 1.0, np.sqrt(1.5)), found, strict=True)):
        last = parts if kind == "one" else {name: part[1] for name, part in parts.items() if name != "time"}
        assert last["observation"].tolist() == pytest.approx([wanted, 0.0])  # 7.1 is always the same
        assert last["observation"].dtype == np.float32
        assert (last["achieved_goal"].item(), last["image"].item()) == (timestep, timestep)
        assert last["desired_goal"].item() in (1.0, 2.0, 3.0)
        time, parity = (np.ravel(part)[-1] for part in parts["time"])
        assert float(time) == pytest.approx(wanted)
        assert int(parity) == timestep % 2
        assert parts in env.observation_space
        if timestep:
            assert same[timestep - 1]["observation"][1].tobytes() == last["observation"].tobytes()
            assert same[timestep - 1]["time/0"].tolist() == [time, time]


def test_a_mask_of_integers_stays_a_mask() -> None:
    mask = Box(0, 1, (2,), np.int8)
    normalize = NormalizeObservation(Dict({ACTION_MASK: mask, "count": Box(0, 9, (), np.int64)}), clip=10)
    space: Any = normalize.space
    assert space[ACTION_MASK] == mask
    batch = {ACTION_MASK: np.array([[1, 0], [1, 1]], np.int32), "count": np.array([2, 4], np.int32)}
    normalize.learn(batch)
    found = normalize(batch)
    assert found[ACTION_MASK].tolist() == [[1, 0], [1, 1]]
    assert found["count"].tolist() == pytest.approx([-1, 1])


def test_statistics_of_other_parts_are_not_taken_over() -> None:
    saved = statistics_of(make("Reach-v0", wrappers=["normalize_observation"]))
    assert saved["0"]["obs_rms"]["mean"].shape == (3,)
    other = make("Line-v0", space=Dict({"a": Box(0, 1, (3,))}), wrappers=["normalize_observation"])
    assert taken_over(other, saved) is None
    assert taken_over(make("Reach-v0", 2, wrappers=["normalize_observation"]), saved) is not None


def test_rewards_by_hand() -> None:
    """Discounted sums 1; 2.5; 4.25. Their variances: 0; 9/16; 1.763889."""
    normalize = NormalizeReward(1, discount=0.5, clip=10)
    found = [normalize(np.array([reward])).item() for reward in (1.0, 2.0, 3.0)]
    assert found == pytest.approx([0.0, 2 / 0.75, 3 / np.sqrt(1.763888888)])
    normalize.begin(np.array([True]))
    normalize(np.array([4.0]))
    assert normalize.accumulated_reward.tolist() == [4.0]  # without the new beginning it would be 6.125
    normalize.update_running_mean = False
    assert normalize(np.array([7.0])).tolist() == [7.0]
    normalize.begin(np.array([True]))
    assert (normalize.accumulated_reward.tolist(), normalize.return_rms.count) == ([4.0], 4)


def test_statistics_are_those_of_all_observations_of_all_copies() -> None:
    num_envs = 3
    wrapped = make("CartPole-v1", num_envs, wrappers=["normalize_observation"])
    env, plain = open_environment(wrapped), open_environment(make("CartPole-v1", num_envs))
    rng = np.random.default_rng(0)
    seeds = list(range(num_envs))
    seen = [plain.reset(None, seeds)]
    found = env.reset(None, seeds)
    resets = 0
    for _ in range(80):
        actions = rng.integers(2, size=num_envs).astype(np.int32)
        step, raw = env.step(actions), plain.step(actions)
        seen.append(raw.observation)
        known = np.concatenate(seen).astype(np.float64)
        expected = (raw.observation - known.mean(axis=0)) / np.sqrt(known.var(axis=0) + 1e-8)
        np.testing.assert_allclose(step.observation, expected, rtol=1e-4, atol=1e-5)
        assert step.observation.dtype == np.float32
        assert (step.reward.tolist(), step.terminated.tolist()) == (raw.reward.tolist(), raw.terminated.tolist())
        ended = step.terminated | step.truncated
        if ended.any():
            resets += 1
            found = env.reset(ended, seeds)
            seen.append(plain.reset(ended, seeds)[ended])
            assert found[~ended].tobytes() == step.observation[~ended].tobytes()
    known = np.concatenate(seen).astype(np.float64)
    moments = wrapped.envs[0].normalizers.observation.obs_rms
    assert moments.count == len(known)
    np.testing.assert_allclose(moments.mean, known.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moments.var, known.var(axis=0), rtol=1e-9)
    assert resets > 2


def test_rewards_of_all_copies_by_hand() -> None:
    """Two copies pay 1, 2, 3 and begin anew: the sums are 1, 1; 2.5, 2.5; 4.25, 4.25; 1, 1; ..."""
    wrapped = make("Line-v0", 2, wrappers=[{"kind": "normalize_reward", "discount": 0.5, "clip": 2.4}])
    env = opened(wrapped, [0, 0])
    acts = np.zeros(2, np.int32)
    steps = [env.step(acts) for _ in range(3)]
    assert [step.reward.tolist() for step in steps] == [[1, 1], [2, 2], [3, 3]]
    rewards = [step.normalized_reward.tolist() for step in steps]
    assert rewards == [[0.0, 0.0], [2.4, 2.4], pytest.approx([3 / np.sqrt(1.763888888)] * 2)]
    env.reset(np.array([True, False]), [0, 0])
    wrapped.envs[1].reset()  # so that it may go on, without the new beginning of a reset of ours
    assert wrapped.envs[0].normalizers.reward.accumulated_reward.tolist() == [0.0, 0.0]
    assert env.step(acts).observation.tolist() == [[1.0, 10.0]] * 2  # observations are left as they are
    assert wrapped.envs[0].normalizers.reward.return_rms.count == 8


def test_one_copy_gives_what_its_gymnasium_wrapper_gives() -> None:
    """Also inside another wrapper, which the batched interface cannot look through."""
    names = ["normalize_observation", "normalize_reward"]
    inside = open_environment(make("Line-v0", wrappers=names))
    outside = open_environment(RecordEpisodeStatistics(make("Line-v0", wrappers=names)))
    acts = np.zeros(1, np.int32)
    for seed in range(3):
        assert inside.reset(None, [seed]).tobytes() == outside.reset(None, [seed]).tobytes()
        for _ in range(3):
            one, other = inside.step(acts), outside.step(acts)
            assert one.observation.tobytes() == other.observation.tobytes()
            assert one.normalized_reward.tolist() == other.reward.tolist()


def test_what_users_wrap_shares_the_statistics_too() -> None:
    """A vector environment that is stepped through Gymnasium learns one row after the other."""
    env = make("Line-v0", 2, wrappers=["normalize_observation", "normalize_reward"])
    env.reset()
    env.step(np.zeros(2, np.int64))
    (one, other) = env.envs
    assert one.normalizers is other.normalizers
    moments = one.normalizers.observation.obs_rms
    assert (moments.count, moments.mean.tolist()) == (4, pytest.approx([0.5, 5.0]))  # of 0, 0, 1, 1
    assert one.normalizers.reward.accumulated_reward.tolist() == [1.0, 1.0]


def test_a_wrapper_around_normalised_rewards_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    around: Any = gymnasium.wrappers.vector.RecordEpisodeStatistics
    said = "RecordEpisodeStatistics wraps normalize_reward: all returns will be sums of normalised rewards"
    open_environment(around(make("Line-v0", 2, wrappers=["normalize_observation"])))
    open_environment(make("Line-v0", 2, wrappers=["normalize_reward"]))
    assert said not in caplog.messages
    open_environment(around(make("Line-v0", 2, wrappers=["normalize_reward"])))
    assert said in caplog.messages


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_similar_one_reads_the_statistics(num_envs: int) -> None:
    names = ["normalize_observation", "normalize_reward", {"kind": "time_limit", "max_episode_steps": 2}]
    one = num_envs == 1
    training: Any = make("Line-v0", None if one else 2, wrappers=names)
    training = RecordEpisodeStatistics(training) if one else training
    env = open_environment(training)
    evaluation = open_environment(SyncVectorEnv([lambda: similar(training)] * 3, autoreset_mode=AutoresetMode.DISABLED))
    normalizers = training.get_wrapper_attr("normalizers") if one else training.envs[0].normalizers
    moments = normalizers.observation.obs_rms

    def known() -> Any:
        rewards = normalizers.reward
        return moments.count, rewards.return_rms.count, rewards.accumulated_reward.tolist()

    env.reset(None, [0] * num_envs)
    for count in (2, 3):  # what it knows now, each time
        env.step(np.zeros(num_envs, np.int32))
        assert moments.count == count * num_envs
        mean, std = moments.mean[0], np.sqrt(moments.var[0])
        before = known()
        assert evaluation.reset(None, [0] * 3)[:, 0].tolist() == pytest.approx([-mean / std] * 3)
        step = evaluation.step(np.zeros(3, np.int32))
        assert step.observation[:, 0].tolist() == pytest.approx([(1 - mean) / std] * 3)
        assert (step.reward.tolist(), step.normalized_reward) == ([1.0] * 3, None)
        assert evaluation.step(np.zeros(3, np.int32)).truncated.all()
        assert known() == before


def test_a_similar_one_can_render() -> None:
    """A hook makes such an environment for videos."""
    spec = similar(make("Line-v0", wrappers=["normalize_observation"])).spec
    assert gymnasium.make(spec, render_mode="rgb_array", disable_env_checker=True).render_mode == "rgb_array"


class Shifted(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds a number to every observation. Gymnasium cannot make it again: it does not record its arguments."""

    def __init__(self, env: Any, by: float) -> None:
        super().__init__(env)
        assert by > 0, f"by {by}"
        self.by = by

    def observation(self, observation: Any) -> Any:
        return observation + self.by


def made(env: Any) -> Any:
    return env


def test_a_wrapper_of_ones_own_is_recorded_and_made_again() -> None:
    names = [{"kind": f"{__name__}:Shifted", "by": 5}, {"kind": f"{__name__}:made"}, "normalize_observation"]
    training = make("Line-v0", 2, wrappers=names, max_episode_steps=2)
    described = arguments_of(training)
    assert described is not None
    assert described["wrappers"] == [*names[:2], {"kind": names[2]}]
    env = open_environment(training)
    env.reset(None, [0, 0])
    env.step(np.zeros(2, np.int32))
    moments = training.envs[0].normalizers.observation.obs_rms
    assert moments.mean.tolist() == [5.5, 10]  # of 5, 5, 6, 6, and of 5 and 15
    for evaluation in (similar(training), make(described["id"], wrappers=described["wrappers"], **described["kwargs"])):
        evaluation.reset()
        assert evaluation.get_wrapper_attr("by") == 5
        assert [evaluation.step(0)[3] for _ in range(2)] == [False, True]
    assert similar(training).reset()[0].tolist() == [-1, -1]


def test_copies_that_do_not_share_cannot_be_made_again() -> None:
    alone = SyncVectorEnv([lambda: make("Line-v0", wrappers=["normalize_observation"])] * 2)
    with pytest.raises(ValueError, match="has running statistics, which a new one would lack; pass env instead"):
        similar(alone)


def test_the_first_one_is_innermost_and_normalisation_outermost() -> None:
    limit = {"kind": "time_limit", "max_episode_steps": 2}
    names = [{"kind": "frame_stack", "stack_size": 2}, "normalize_observation", limit]
    env = open_environment(make("Line-v0", 2, wrappers=names))
    assert env.observation_space == Box(-10.0, 10.0, (2, 2), np.float32)
    env.reset(None, [0, 0])
    step = env.step(np.zeros(2, np.int32))
    # Of the older frames 0, 0: mean 0, variance 0. Of the newer ones 0, 1: mean 1/2, deviation 1/2.
    assert step.observation[0].tolist() == [[0.0, 0.0], pytest.approx([1.0, 1.0])]
    assert env.step(np.zeros(2, np.int32)).truncated.all()


def test_entries_are_selected() -> None:
    space = Box(np.array([-1, -2, -3], np.float32), np.array([1, 2, 3], np.float32))
    env = make("Line-v0", wrappers=[{"kind": "select_observation", "indices": [1]}])
    env.reset()
    assert env.step(0)[0].tolist() == [10]
    several = make("Line-v0", 2, space=space, wrappers=[{"kind": "select_observation", "indices": [2, 0]}])
    assert several.single_observation_space == Box(np.array([-3, -1], np.float32), np.array([3, 1], np.float32))
    assert open_environment(similar(several)).reset(None, [0]).shape == (1, 2)


class Listed(Line):
    """Observes a list, as a batched environment takes it."""

    def observation(self) -> Any:
        return [self.timestep, 10.0 * self.timestep]


def test_entries_of_a_list_are_selected() -> None:
    env = open_environment(Wrapping([{"kind": "select_observation", "indices": [1, 0]}]).wrap(Listed()))
    env.reset(None, [0])
    assert env.step(np.zeros(1, np.int32)).observation.tolist() == [[10.0, 1.0]]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_channels_move(dtype: Any) -> None:
    bounds = np.arange(24).reshape(2, 3, 4).astype(dtype)
    space = Box(np.zeros_like(bounds), bounds, dtype=dtype)
    first = make("Line-v0", space=space, wrappers=["channels_first"])
    assert first.observation_space == Box(np.zeros((4, 2, 3), dtype), np.moveaxis(bounds, -1, 0), dtype=dtype)
    assert first.reset()[0].shape == (4, 2, 3)
    last = make("Line-v0", space=space, wrappers=["channels_last"])
    assert last.observation_space.shape == (3, 4, 2)
    both = make("Line-v0", space=space, wrappers=["channels_first", "channels_last"])
    assert both.observation_space == space
    assert open_environment(both).reset(None, [0]).shape == (1, 2, 3, 4)


def test_actions_are_rescaled() -> None:
    space = Box(np.array([0.0, -3.0], np.float32), np.array([10.0, 1.0], np.float32))
    env = make("Line-v0", actions=space, wrappers=["rescale_action"])
    assert env.action_space == Box(-1.0, 1.0, (2,), np.float32)
    batched = opened(env, [0])
    batched.step(np.array([[-1.0, 1.0]], np.float32))
    batched.step(np.array([[0.5, 7.0]], np.float32))  # clipped to 1
    assert [action.tolist() for action in env.unwrapped.actions] == [[0.0, 1.0], [7.5, 1.0]]
    wide = make("Line-v0", actions=space, wrappers=[{"kind": "rescale_action", "min_action": 0, "max_action": 2}])
    assert wide.action_space == Box(0.0, 2.0, (2,), np.float32)
    rounded = make("Line-v0", actions=Box(-2.98, 1.9, (1,)), wrappers=["rescale_action"])
    rounded.reset()
    rounded.step(np.ones(1, np.float32))  # -1 + 2 / 4.88 * (1.9 + 2.98), in float32, is more than 1.9
    assert rounded.unwrapped.actions[0] == np.float32(1.9)
    fixed = Box(np.zeros(2, np.float32), np.array([0, 1], np.float32))
    with pytest.raises(WrapperError, match=r"rescale_action: .* must have low below high in every component"):
        make("Line-v0", actions=fixed, wrappers=["rescale_action"])


WORDS = Dict({"a": Discrete(2)})
GOALS = Dict({"achieved_goal": Box(0, 1), "desired_goal": Box(0, 1)})
IMAGE = Box(0, 255, (8, 8, 3), np.uint8)
LIMIT = {"kind": "time_limit", "max_episode_steps": 2}


@pytest.mark.parametrize(
    ("wrappers", "kwargs", "key", "message"),
    [
        (["normalise_observation"], {}, "kind", "unknown wrapper 'normalise_observation' .did you mean 'normalize_obs"),
        (["AtariPreprocessing"], {}, "kind", "did you mean 'atari'"),  # as Gymnasium calls it
        ([3], {}, None, "a wrapper must be a name or a mapping with a kind, got 3"),
        (["time_limit"], {}, None, "time_limit needs the argument 'max_episode_steps'"),
        ([{**LIMIT, "max_steps": 3}], {}, "max_steps", "time_limit takes no argument 'max_steps' .did you mean 'max"),
        ([{"kind": "select_observation", "indices": [0, 2]}], {}, "indices", r"in 0 .. 1, got \[0, 2\]"),
        ([{"kind": "select_observation", "indices": [1, 1]}], {}, "indices", r"different .*, got \[1, 1\]"),
        ([{"kind": "select_observation", "indices": [0]}], {"space": IMAGE}, None, "must be a vector, .* got Box"),
        (
            [{**LIMIT, "max_episode_steps": 9}],
            {"max_episode_steps": 5},
            "max_episode_steps",
            "max_episode_steps must be at most 5, the limit of Line-v0, got 9",
        ),
        ([{"kind": "frame_stack", "stack_size": 2}], {"space": WORDS}, None, "frame_stack: the observation space must"),
        ([LIMIT, "normalize_observation"], {"space": IMAGE}, None, r"integers other than bytes, .* got Box\(0, 255"),
        (["normalize_observation"], {"space": WORDS}, None, r"with one that is not a goal, got Dict\('a': Discrete"),
        (["normalize_observation"], {"space": GOALS}, None, r"with one that is not a goal, got Dict\('achieved_goal"),
        ([{"kind": "normalize_observation", "clip": 0}], {}, "clip", "clip must be a finite number above 0, got 0"),
        ([{"kind": "normalize_reward", "discount": 2}], {}, "discount", "discount must be a finite number of at least"),
        (["normalize_reward", LIMIT, "normalize_reward"], {}, None, "duplicate normalize_reward"),
        (
            ["normalize_reward", "normalize_observation", "channels_last"],
            {"space": IMAGE},
            None,
            "channels_last must come before normalize_reward and normalize_observation: normalisation is outermost",
        ),
        (["channels_first"], {}, None, r"channels_first: .* must be images, a Box with three axes, got Box\(-inf"),
        (["rescale_action"], {}, None, r"must be a bounded Box of floats, got Discrete\(2\)"),
        (["rescale_action"], {"actions": Box(-np.inf, 1, (1,))}, None, r"must be a bounded Box .* got Box\(-inf, 1.0"),
        (
            [{"kind": "rescale_action", "min_action": 1.0, "max_action": 1.00000001}],  # the same in float32
            {"actions": Box(0, 1, (1,))},
            "max_action",
            r"max_action must be above min_action, got 1\.0 and 1\.0",
        ),
        (["mask_from_info"], {"actions": Box(0, 1, (1,))}, None, "must be Discrete or MultiDiscrete, got Box"),
        (
            ["nothing"],
            {},
            "kind",
            r"unknown wrapper 'nothing'; there are .*; write 'package.module:Wrapper' for another",
        ),
        (
            ["no_module:Wrapper"],
            {},
            "kind",
            "wrapper 'no_module:Wrapper': there is no module 'no_module' on the import",
        ),
        ([f"{__name__}:Shiftd"], {}, "kind", "has no 'Shiftd'; did you mean 'Shifted'"),
        ([f"{__name__}:Shifted"], {}, None, "Shifted needs the argument 'by'"),
        ([{"kind": f"{__name__}:Shifted", "bye": 1}], {}, "bye", "takes no argument 'bye' .did you mean 'by'"),
        ([{"kind": f"{__name__}:Shifted", "by": -1}], {}, "kind", "Shifted does not fit .*: AssertionError: by -1"),
        (["builtins:repr"], {}, "kind", "builtins:repr must return a gymnasium.Env, got str"),
        (["builtins:dict"], {}, "kind", "builtins:dict' must take the environment as its first argument"),
        (
            ["normalize_reward", f"{__name__}:made"],
            {},
            None,
            "made must come before normalize_reward: normalisation is",
        ),
    ],
)
def test_mistakes(wrappers: Any, kwargs: Any, key: Any, message: Any) -> None:
    """The last of the wrappers is the wrong one."""
    caught = raised(WrapperError, make, "Line-v0", wrappers=wrappers, **kwargs, match=message)
    index = len(wrappers) - 1
    assert (caught.index, caught.key) == (index, key)
    assert caught.argument == f"wrappers[{index}]" + (f".{key}" if key else "")


def test_a_mistake_is_found_with_several_copies_and_survives_pickling() -> None:
    caught = raised(WrapperError, make, "Line-v0", 2, wrappers=[LIMIT, {"kind": "normalize_reward", "clip": 0}])
    error = pickle.loads(pickle.dumps(caught))
    assert (error.index, error.key, error.argument, error.value) == (1, "clip", "wrappers[1].clip", 0)
    assert str(error) == "normalize_reward: clip must be a finite number above 0, got 0"


@pytest.mark.parametrize("wrong", ["normalize_reward", LIMIT])
def test_what_is_not_a_list_of_wrappers(wrong: Any) -> None:
    with pytest.raises(
        ArgumentError, match="wrappers must be a list of names and mappings with a kind, got "
    ) as caught:
        make("Line-v0", wrappers=wrong)
    assert (caught.value.argument, caught.value.value) == ("wrappers", wrong)


def test_an_environment_that_is_refused_is_closed(monkeypatch: Any) -> None:
    closed: list[Any] = []

    def close(env: Any) -> None:
        closed.append(env)

    monkeypatch.setattr(Line, "close", close)
    for wrappers in (["channels_first"], [LIMIT, {"kind": "normalize_reward", "clip": 0}]):
        closed.clear()
        raised(WrapperError, make, "Line-v0", 2, wrappers=wrappers)
        assert closed


class Reports(Line):
    """A Line whose info has what is given."""

    def __init__(self, actions: Any = None, **info: Any) -> None:
        super().__init__(actions=actions)
        self.info = info

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], self.info

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], self.info


@pytest.mark.parametrize(
    ("actions", "given"), [(Discrete(2, start=3), [1, 0]), (MultiDiscrete([2, 3]), np.array([0, 1, 1, 1, 0], np.int8))]
)
def test_a_mask_comes_from_info(actions: Any, given: Any) -> None:
    env = mask_from_info(Reports(actions, legal=given), name="legal")
    first, _ = env.reset()
    second, *_ = env.step(3)
    for observation, numbers in ((first, [0, 0]), (second, [1, 10])):
        assert env.observation_space.contains({**observation, "observation": observation["observation"]})
        assert observation["observation"].tolist() == numbers
        assert (observation["action_mask"].tolist(), observation["action_mask"].dtype) == (
            [bool(x) for x in given],
            bool,
        )


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"x": 1, "y": 2}, r"info\['action_mask'\] of Reports is missing, there is only 'x', 'y'"),
        ({}, "is missing, there is only nothing"),
        ({"action_mask": [1, 0, 1]}, r"info\['action_mask'\] of Reports must be 2 bits, one per action, .*, got "),
        ({"action_mask": [1, 2]}, "must be 2 bits"),
        ({"action_mask": [1.0, 0.0]}, "must be 2 bits"),  # neither probabilities nor values are a mask
        ({"action_mask": [[1], [1, 0]]}, "must be 2 bits"),
    ],
)
def test_info_without_a_mask_is_an_error(info: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mask_from_info(Reports(**info)).reset()


def test_copies_with_masks_are_made_again_from_their_spec() -> None:
    env = make("Taxi-v4", 2, wrappers=[{"kind": "mask_from_info", "name": "action_mask"}])
    batch = open_environment(env).reset(None, [1, 2])
    assert {name: (value.shape, value.dtype) for name, value in batch.items()} == {
        "observation": ((2,), np.int32),
        "action_mask": ((2, 6), bool),
    }
    again = similar(env)
    assert again.observation_space == env.single_observation_space
    assert again.reset(seed=1)[0]["action_mask"].tolist() == batch["action_mask"][0].tolist()
