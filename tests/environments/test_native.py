"""Native vector environments: equal to Gymnasium's own, bit for bit, from the same seeds and actions."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl.environments.description import arguments_of
from axonrl.environments.native import IDS, NativeVectorEnv
from axonrl.environments.native.elementwise import one_by_one, same_as_scalar
from axonrl.environments.normalization import Wrapped
from axonrl.environments.vectors import NativeVector
from axonrl.environments.wrapping import WrapperError
from axonrl.errors import ArgumentError
from axonrl.tests.environments.untyped import make, open_environment, opened, similar
from axonrl.tests.raising import raised

TIMESTEPS = 25_000
LANES = 25  # no multiple of what a processor computes at once

pytestmark = pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date:DeprecationWarning")


def native(env_id: str, num_envs: int = 3, **kwargs: Any) -> Any:
    return make(env_id, num_envs, vectorization="native", **kwargs)


def swing(env: Any, observations: Any, rng: np.random.Generator) -> Any:
    """Actions that also reach goals: mostly along with the speed; some are random, some of a Box beyond its bounds."""
    speed = observations[:, {2: 1, 3: 2, 4: 3, 6: 5}[observations.shape[1]]]
    if isinstance(env.single_action_space, gymnasium.spaces.Box):
        size = np.where(rng.random(len(speed)) < 0.1, 3.0, 1.0) * env.single_action_space.high
        along = np.where(speed >= 0, 1.0, -1.0) * rng.uniform(-0.2, 1.0, len(speed))
        return (along * size).astype(np.float32)[:, None]
    last = env.single_action_space.n - 1
    pushes: Any = np.where(speed >= 0, last, 0) if last > 1 or rng.random() < 0.5 else rng.integers(0, 2, len(speed))
    return np.where(rng.random(len(speed)) < 0.2, rng.integers(0, last + 1, len(speed)), pushes)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "timesteps"),
    [
        *((env_id, {}, TIMESTEPS) for env_id in IDS),
        ("MountainCar-v0", {"goal_velocity": 0.03}, 10_000),
        ("MountainCarContinuous-v0", {"goal_velocity": 0.02, "max_episode_steps": -1}, 10_000),
        ("Pendulum-v1", {"g": 9, "max_episode_steps": 7}, 5_000),
    ],
)
def test_everything_equals_gymnasium_bit_for_bit(env_id: str, kwargs: Any, timesteps: int) -> None:
    rng = np.random.default_rng(3)
    env = native(env_id, LANES, **kwargs)
    scalars: list[Any] = [gymnasium.make(env_id, disable_env_checker=True, **kwargs) for _ in range(LANES)]
    assert env.single_observation_space == scalars[0].observation_space
    assert env.single_action_space == scalars[0].action_space
    seeds: Any = [int(seed) for seed in rng.integers(0, 2**63, LANES)]
    observations, _ = env.reset(seed=seeds)
    expected = np.stack([one.reset(seed=seed)[0] for one, seed in zip(scalars, seeds, strict=True)])
    ended = {"terminated": 0, "truncated": 0}
    for _ in range(timesteps // LANES):
        assert observations.dtype == np.float32
        assert observations.tobytes() == expected.tobytes()
        actions = swing(env, observations, rng)
        observations, rewards, terminated, truncated, _ = env.step(actions)
        steps = [one.step(action) for one, action in zip(scalars, actions, strict=True)]
        expected = np.stack([step[0] for step in steps])
        assert rewards.tobytes() == np.array([step[1] for step in steps], np.float64).tobytes()
        assert terminated.tolist() == [step[2] for step in steps]
        assert truncated.tolist() == [step[3] for step in steps]
        mask = terminated | truncated
        if mask.any():
            assert observations.tobytes() == expected.tobytes()  # the last of each episode
            ended["terminated"] += terminated.sum()
            ended["truncated"] += truncated.sum()
            some: Any = [int(seed) if seed % 3 else None for seed in rng.integers(0, 2**63, LANES)]
            observations, _ = env.reset(seed=some, options={"reset_mask": mask})
            for lane in np.flatnonzero(mask):
                expected[lane], _ = scalars[lane].reset(seed=some[lane])
    assert env_id == "Pendulum-v1" or ended["terminated"] > 0
    assert env_id.startswith(("CartPole-v1", "Mountain", "Acrobot")) or ended["truncated"] > 0


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("CartPole-v1", {"low": -0.1, "high": 0.08}),
        ("MountainCarContinuous-v0", {"low": -0.9, "high": -0.8}),
        ("Acrobot-v1", {"low": -0.3, "high": 0.3}),
        ("Pendulum-v1", {"x_init": 0.5, "y_init": 0.2}),
    ],
)
def test_resets_of_every_kind_equal_gymnasiums(env_id: str, options: Any) -> None:
    """Seeded twice, in mid-episode, from where the generator stands, with options; some lanes or all."""
    env = native(env_id)
    scalars: list[Any] = [gymnasium.make(env_id, disable_env_checker=True) for _ in range(3)]
    env.action_space.seed(0)
    resets: list[tuple[Any, Any, list[bool]]] = [
        ([4, 5, 6], None, [True, True, True]),
        ([4, 5, 6], options, [True, True, True]),
        (None, options, [False, True, False]),
        ([None, 9, None], None, [True, True, False]),
        (None, None, [True, True, True]),
    ]
    observations = np.zeros(0)
    for seeds, given, mask in resets:
        chosen = {**(given or {}), "reset_mask": np.array(mask)}
        observations = env.reset(seed=seeds, options=chosen)[0]
        for lane in np.flatnonzero(mask).tolist():
            expected = scalars[lane].reset(seed=None if seeds is None else seeds[lane], options=given)[0]
            assert observations[lane].tobytes() == expected.tobytes()
        for _ in range(3):
            actions = env.action_space.sample()
            before, observations = observations, env.step(actions)[0]
            assert before.tobytes() != observations.tobytes()
            expected = np.stack([one.step(action)[0] for one, action in zip(scalars, actions, strict=True)])
            assert observations.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("of_the_book", "rewards"), [(False, [1.0, 1.0]), (True, [0.0, -1.0])])
def test_an_end_and_the_time_limit_may_come_together(of_the_book: bool, rewards: list[float]) -> None:
    one, steps = gymnasium.make("CartPole-v1"), 0
    one.reset(seed=5)
    while not one.step(1)[2]:
        steps += 1
    env = native("CartPole-v1", 1, max_episode_steps=steps + 1, sutton_barto_reward=of_the_book)
    env.reset(seed=5)
    *_, before, last = [env.step(np.array([1])) for _ in range(steps + 1)]
    assert [before[1].item(), last[1].item()] == rewards
    assert [array.item() for array in (*before[2:4], *last[2:4])] == [False, False, True, True]


def test_a_loop_that_differs_from_calls_with_one_number_is_not_used() -> None:
    x, out = np.linspace(-9.0, 9.0, 7), np.empty(7)

    class Careless:
        """A careless vectorised loop: its tail is computed in another way than the rest."""

        def __call__(self, value: Any, out: Any = None) -> Any:
            if not isinstance(value, np.ndarray):
                return np.cos(value)
            np.cos(value, out)
            out[-1] = np.nextafter(out[-1], 2.0)
            return out

    careless: Any = Careless()
    assert same_as_scalar(np.cos, 7) is np.cos
    same_as_scalar(careless, 7)(x, out)
    assert out.tolist() == [np.cos(value) for value in x]
    one_by_one(np.sin, x, out)
    assert out.tolist() == [np.sin(value) for value in x]


def test_it_is_a_vector_environment_that_is_reset_by_mask() -> None:
    env, sync = native("CartPole-v1"), make("CartPole-v1", 3)
    assert env.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    assert (env.action_space, env.spec.id) == (sync.action_space, "CartPole-v1")
    assert env.reset(seed=5)[0].tolist() == sync.reset(seed=5)[0].tolist()  # 5, 6 and 7
    first = env.reset(seed=[1, 2, 3], options={"low": -0.2, "high": 0.1})[0]
    options = {"reset_mask": np.array([False, True, False])}
    assert env.reset(seed=[8, 9, 10], options=options)[0][[0, 2]].tolist() == first[[0, 2]].tolist()
    assert list(options) == ["reset_mask"]


def test_what_is_returned_is_the_caller_s() -> None:
    """Later steps and resets leave it alone, also where episodes have ended, and a caller may change it."""
    rng = np.random.default_rng(0)
    env, other = (native("CartPole-v1", max_episode_steps=120) for _ in range(2))
    observations, kept = env.reset(seed=1)[0], []
    other.reset(seed=1)[0][...] = 7
    for step in range(130):
        actions = swing(env, observations, rng)
        mine, theirs = env.step(actions)[:4], other.step(actions)[:4]
        before = [array.tobytes() for array in mine]
        assert [array.tobytes() for array in theirs] == before
        kept.append((mine, before))
        for array in theirs:
            array[...] = 1
        observations, mask = mine[0], mine[2] | mine[3]
        if mask.any():
            mask[step % 2 :] = True
            seeds = [step, step + 1, step + 2]
            observations, theirs = (one.reset(seed=seeds, options={"reset_mask": mask})[0] for one in (env, other))
            assert observations.tobytes() == theirs.tobytes()
    assert any(array.any() for mine, _ in kept for array in mine[2:])
    assert [before for _, before in kept] == [[array.tobytes() for array in mine] for mine, _ in kept]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCarContinuous-v0", "Acrobot-v1"])
def test_a_saved_state_leads_on_as_the_environment_itself(env_id: str) -> None:
    """Also into an environment that has done something else, and without the seeds of later resets."""
    rng = np.random.default_rng(0)
    env, other = native(env_id, max_episode_steps=15), native(env_id, max_episode_steps=15)
    other.reset(seed=9)
    observations = env.reset(seed=4)[0]
    for step in range(60):
        if step in (0, 7, 15, 30):
            other.load_state_dict(env.state_dict())
        actions = swing(env, observations, rng)
        both = [one.step(actions)[:4] for one in (env, other)]
        assert [a.tobytes() for a in both[0]] == [b.tobytes() for b in both[1]]
        observations, _, terminated, truncated = both[0]
        if (mask := terminated | truncated).any():
            other.load_state_dict(env.state_dict())  # where lanes have ended
            both = [one.reset(options={"reset_mask": mask})[:1] for one in (env, other)]
            assert both[0][0].tobytes() == both[1][0].tobytes()
    assert env.state_dict().keys() == other.state_dict().keys()


def test_a_state_of_another_environment_is_refused() -> None:
    state = native("Pendulum-v1", g=9.0).state_dict()
    for env in (
        native("Pendulum-v1"),
        native("Pendulum-v1", 2, g=9.0),
        native("Pendulum-v1", g=9.0, max_episode_steps=5),
    ):
        with pytest.raises(ValueError, match=r"the state belongs to Pendulum-v1, 3 lanes, g=9\.0"):
            env.load_state_dict(state)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "message"),
    [
        (
            "HalfCheetah-v5",
            {},
            "HalfCheetah-v5 has no native implementation; those that have one are CartPole-v0, CartPole-v1,"
            " MountainCar-v0",
        ),
        ("Pendulum-v0", {}, r"no native implementation \(did you mean 'Pendulum-v1'\?\)"),
        ("Acrobot-v1", {"render_mode": "rgb_array"}, "takes no argument 'render_mode', only max_episode_steps"),
        ("Pendulum-v1", {"g": "9"}, "g of Pendulum-v1 must be a number, got '9'"),
    ],
)
def test_what_there_is_no_native_copy_of(env_id: str, kwargs: Any, message: str) -> None:
    raised(ArgumentError, native, env_id, **kwargs, match=message)


def test_wrong_calls() -> None:
    with pytest.raises(ArgumentError, match="vectorization must be one of sync, native"):
        make("CartPole-v1", 2, vectorization="natve")
    with pytest.raises(ArgumentError, match="vectorization 'native' needs the number of copies, num_envs"):
        make("CartPole-v1", vectorization="native")
    env = native("CartPole-v1", max_episode_steps=2)
    raised(ValueError, env.step, np.zeros(3, np.int64), match=r"the lanes \[0, 1, 2\] must be reset")
    raised(ValueError, env.reset, seed=[1, 2], match="needs 3 seeds, got 2")
    raised(ValueError, env.reset, options={"reset_mask": np.zeros(3, np.bool_)}, match="at least one True")
    raised(TypeError, env.reset, options={"reset_mask": [True, True, True]}, match="must be a boolean array")
    env.reset(seed=1)
    for wrong in (-1, 2):
        raised(ValueError, env.step, np.array([0, wrong, 1]), match=r"actions must be integers 0 \.\. 1")
    truncated = [env.step(np.array([0, 1, 1]))[3].tolist() for _ in range(2)]
    assert truncated == [[False] * 3, [True] * 3]  # refused actions do not count


@pytest.mark.parametrize(
    ("env_id", "actions", "expected"),
    [
        *(("CartPole-v1", given, r"integers \[2\]") for given in (np.array([1]), [0, 1], np.array([True, False]))),
        *(("Pendulum-v1", given, r"float32 \[2, 1\]") for given in (np.ones((1, 1), np.float32), np.ones((2, 1)))),
    ],
)
def test_one_action_is_not_taken_for_all_lanes(env_id: str, actions: Any, expected: str) -> None:
    env = native(env_id, 2, max_episode_steps=1)
    env.reset(seed=1)
    raised(ValueError, env.step, actions, match=f"needs an array of actions, {expected}, got ")
    assert env.step(env.action_space.sample())[3].all()  # what is refused does not count


def test_wrappers_around_each_copy_are_refused_by_name() -> None:
    wrappers = ["normalize_observation", {"kind": "time_limit", "max_episode_steps": 9}]
    with pytest.raises(
        WrapperError, match=r"time_limit cannot be put around .*; pass max_episode_steps to the env"
    ) as e:
        native("CartPole-v1", wrappers=wrappers)
    assert e.value.index == 1
    with pytest.raises(
        WrapperError, match=r"rescale_action cannot be put around the copies of Pendulum-v1 with .*'sync'"
    ):
        native("Pendulum-v1", wrappers=["rescale_action"])


def played(env: Any, steps: int = 120) -> list[bytes]:
    """All that a batched environment returns in so many steps, with resets."""
    batched, rng = open_environment(env), np.random.default_rng(2)
    found = [batched.reset(None, range(3)).tobytes()]
    for step in range(steps):
        actions = rng.integers(0, 2, 3)
        if step == steps // 2 and batched.saves_state:
            state, batched = batched.state_dict(), open_environment(env)
            batched.load_state_dict(state)
        result = batched.step(actions)
        found += [array.tobytes() for array in result if array is not None]
        if (ended := result.terminated | result.truncated).any():
            found.append(batched.reset(ended, range(step, step + 3)).tobytes())
    return found


@pytest.mark.parametrize("wrappers", [[], ["normalize_reward", "normalize_observation"]])
def test_behind_the_batched_interface_it_equals_copies_stepped_one_by_one(wrappers: Any) -> None:
    env, sync = native("CartPole-v1", wrappers=wrappers), make("CartPole-v1", 3, wrappers=wrappers)
    assert isinstance(env.unwrapped, NativeVectorEnv)
    assert env.observation_space == sync.observation_space
    assert played(env) == played(sync)
    assert open_environment(env).not_exact is None


def test_another_one_like_it_is_gymnasiums_own() -> None:
    env = native("Pendulum-v1", g=9.0, max_episode_steps=50)
    one = similar(env)
    assert (type(one.unwrapped).__name__, one.unwrapped.g) == ("PendulumEnv", 9.0)
    assert one.spec.max_episode_steps == 50
    assert arguments_of(env) == {
        "id": "Pendulum-v1",
        "kwargs": {"g": 9.0, "max_episode_steps": 50},
        "wrappers": [],
        "vectorization": "native",
    }
    wrapped = native("Pendulum-v1", wrappers=["normalize_observation"])
    one = similar(wrapped)
    assert isinstance(one, Wrapped)
    assert one.row is None
    assert one.normalizers is wrapped.normalizers
    described = arguments_of(wrapped)
    assert described is not None
    assert described["wrappers"] == [{"kind": "normalize_observation"}]


def test_others_may_save_their_state_too() -> None:
    """Vector environments of users offer the same two methods; a wrapper around them hides these."""

    class Saving(SyncVectorEnv):
        saved = 0

        def state_dict(self) -> Any:
            self.saved += 1
            return {"here": np.array([env.unwrapped.state for env in self.envs])}  # type: ignore[attr-defined]

        def load_state_dict(self, state: Any) -> None:
            for env, here in zip(self.envs, state["here"], strict=True):
                env.unwrapped.state = here  # type: ignore[attr-defined]

    env: Any = Saving([lambda: make("CartPole-v1")] * 3, autoreset_mode=AutoresetMode.DISABLED)
    assert opened(env, range(3)).state_dict()["environment"]["here"].shape == (3, 4)
    assert open_environment(gymnasium.wrappers.vector.TransformReward(env, np.negative)).state_dict() is None
    assert open_environment(make("CartPole-v1", 3)).state_dict() is None
    assert isinstance(open_environment(native("CartPole-v1")), NativeVector)
