"""Environments from ids, new ones like a given one, and MinAtar."""

import itertools
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import NormalizeObservation, RecordEpisodeStatistics, TimeAwareObservation, TransformReward

from axonrl.environments import ids
from axonrl.environments.minatar import FromSeed
from axonrl.errors import ArgumentError
from axonrl.tests.environments.untyped import make, open_environment, registered, similar
from axonrl.tests.raising import raised


class Bare(gymnasium.Env[Any, Any]):
    observation_space: Any = Box(-1, 1, (1,))
    action_space: Any = Discrete(2)


def test_make_one_and_several() -> None:
    env = make("CartPole-v1", max_episode_steps=7)
    assert env.spec.max_episode_steps == 7
    assert "PassiveEnvChecker" not in str(env)
    env = make("CartPole-v1", num_envs=3, max_episode_steps=7)
    assert (type(env), env.num_envs) == (SyncVectorEnv, 3)
    assert env.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    assert len({id(one.unwrapped) for one in env.envs}) == 3
    assert all(one.spec.max_episode_steps == 7 for one in env.envs)


@pytest.mark.filterwarnings("ignore:.*LunarLander-v2 is out of date:DeprecationWarning")
@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("CartPol-v1", "unknown environment 'CartPol-v1'; did you mean 'CartPole-v1' or "),
        ("LunarLander-v2", "unknown environment 'LunarLander-v2'; did you mean 'LunarLander-v3'"),
        ("axonrl.environments:make", "module 'axonrl.environments' neither registers the id 'make' nor has a gym"),
        ("nosuchpackage:Thing-v0", "needs a package that is not installed: No module named 'nosuchpackage'"),
    ],
)
def test_unknown_ids(env_id: Any, message: Any) -> None:
    caught = raised(ArgumentError, open_environment, env_id, match=message)
    assert (caught.argument, caught.value) == ("env_id", env_id)


def test_ids_without_a_namespace_are_looked_up_in_every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """ALE has such ids, which are older than its namespace."""
    with registered("Elsewhere-v4", Bare):
        spec = gymnasium.registry.pop("Elsewhere-v4")
        register = {"other/": lambda: gymnasium.registry.__setitem__("Elsewhere-v4", spec)}
        monkeypatch.setattr(ids, "_REGISTER", register)
        assert make("Elsewhere-v4").spec.id == "Elsewhere-v4"
        raised(ArgumentError, make, "Elsewere-v4", match="did you mean 'Elsewhere-v4'")


def test_wrong_arguments_are_named() -> None:
    message = r"CartPole-v1 could not be made with \{'gravity': 3\}: TypeError: .*gravity"
    caught = raised(ArgumentError, make, "CartPole-v1", gravity=3, match=message)
    assert (caught.argument, caught.value) == ("kwargs", {"gravity": 3})
    for number in (0, 10**8, 1e30):
        caught = raised(ArgumentError, make, "CartPole-v1", number)
        assert (caught.argument, caught.value) == ("num_envs", number)
    assert make("CartPole-v1", np.int64(2)).num_envs == 2
    caught = raised(ArgumentError, make, None, match="env_id must be an id, such as 'CartPole-v1', got None")
    assert caught.argument == "env_id"


def test_an_environment_that_refuses_its_arguments_is_known_all_the_same() -> None:
    class Refusing(gymnasium.Env[Any, Any]):
        def __init__(self, frameskip: Any = 4) -> None:
            raise gymnasium.error.Error("Invalid frameskip type")

    message = r"Refusing-v0 could not be made with \{'frameskip': \[2\]\}: Error: Invalid f"
    with registered("axonrl-test/Refusing-v0", Refusing), pytest.raises(ValueError, match=message):
        make("axonrl-test/Refusing-v0", frameskip=[2])


def test_missing_packages_name_the_extra(monkeypatch: Any) -> None:
    for module in [name for name in sys.modules if name.startswith(("gymnasium.envs.box2d", "Box2D", "minatar"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.setitem(sys.modules, "minatar", None)
    for env_id in [env_id for env_id in gymnasium.registry if env_id.startswith("MinAtar/")]:
        monkeypatch.delitem(gymnasium.registry, env_id)
    with pytest.raises(ValueError, match=r"LunarLander-v3 needs .* not installed: pip install 'axonrl\[box2d\]'"):
        make("LunarLander-v3")
    with pytest.raises(ValueError, match=r"MinAtar/Breakout-v1 needs .* not installed: .* 'axonrl\[minatar\]'"):
        make("MinAtar/Breakout-v1")


@pytest.mark.parametrize("wrong", [None, {"id": "CartPole-v1"}])
def test_what_is_not_an_environment(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=r"env must be a gymnasium\.Env, a .*VectorEnv or an id, got ") as caught:
        open_environment(wrong)
    assert (caught.value.argument, caught.value.value) == ("env", wrong)


def test_an_environment_without_a_space() -> None:
    class Spaceless(gymnasium.Env[Any, Any]):
        pass

    message = r"Spaceless has no observation_space: .* a gymnasium\.Space, got None"
    assert raised(ArgumentError, open_environment, Spaceless(), match=message).argument == "observation_space"


def test_a_nondeterministic_environment_is_not_exact() -> None:
    with registered("Dice-v0", lambda **_: Bare(), nondeterministic=True):
        assert open_environment("Dice-v0").not_exact == "it is registered as nondeterministic"


def test_similar_to_one_with_its_wrappers() -> None:
    env = TimeAwareObservation(RecordEpisodeStatistics(make("Pendulum-v1", g=3.0, max_episode_steps=9)))
    fresh = similar(env)
    assert fresh.unwrapped is not env.unwrapped
    assert (fresh.unwrapped.g, fresh.spec.max_episode_steps) == (3.0, 9)
    assert fresh.observation_space.shape == (4,)
    assert fresh.reset(seed=5)[0].tolist() == env.reset(seed=5)[0].tolist()
    assert similar("CartPole-v1").spec.id == "CartPole-v1"


@pytest.mark.parametrize("copies", [None, 1, 2])
@pytest.mark.parametrize("wrappers", [[], [{"kind": "time_limit", "max_episode_steps": 2}, "normalize_reward"]])
def test_similar_to_one_made_from_its_class(copies: Any, wrappers: Any) -> None:
    env = make("axonrl.tests.estimators.fakes:Counting", copies, wrappers=wrappers, length=4)
    env.reset()
    fresh = similar(env)
    fresh.reset()
    assert fresh.unwrapped not in (env.unwrapped, *(one.unwrapped for one in getattr(env, "envs", ())))
    # rewards of an evaluation are the environment's: 1, 2, 3, ...
    steps = [fresh.step(0)[1:4] for _ in range(2 if wrappers else 4)]
    ended = (
        [(1, False, False), (2, False, True)]
        if wrappers
        else [*((n, False, False) for n in (1, 2, 3)), (4, True, False)]
    )
    assert steps == ended


def test_similar_to_a_vector_environment() -> None:
    env = make("Pendulum-v1", 2, g=3.0)
    fresh = similar(env)
    assert fresh.unwrapped.g == 3.0
    assert fresh not in env.envs
    fast = gymnasium.make_vec("CartPole-v1", num_envs=2, max_episode_steps=8, sutton_barto_reward=True)
    assert type(fast).__name__ == "CartPoleVectorEnv"
    fresh = similar(fast)
    assert (fresh.spec.id, fresh.spec.max_episode_steps) == ("CartPole-v1", 8)
    assert fresh.spec.kwargs == {"sutton_barto_reward": True}


def test_similar_opens_no_second_window() -> None:
    env = make("CartPole-v1")
    env.unwrapped.spec.kwargs["render_mode"] = "human"
    assert similar(env).render_mode is None
    assert env.unwrapped.spec.kwargs == {"render_mode": "human"}


class Unrecorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    pass


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (Bare, "it was not made from an id"),
        (lambda: Unrecorded(make("CartPole-v1")), "Unrecorded wrapper does not inherit from"),
        (lambda: TransformReward(NormalizeObservation(make("CartPole-v1")), float), "NormalizeObservation has"),
        (
            lambda: SyncVectorEnv([itertools.repeat(Bare()).__next__]),
            "returns an environment that it contains already, not a new one",
        ),
        (lambda: gymnasium.wrappers.vector.ClipReward(make("CartPole-v1", 2), 0, 1), "do not fit a single one"),
    ],
)
def test_what_cannot_be_made_again(build: Any, why: Any) -> None:
    env = build()
    with pytest.raises(
        ArgumentError, match=f"cannot make another environment like .*{why}.*; pass env instead"
    ) as caught:
        similar(env)
    assert (caught.value.argument, caught.value.value) == ("env", env)


GAMES = ["Breakout", "Seaquest"]


def episode(env: Any, seed: Any, steps: Any = 200) -> Any:
    """Observations, rewards and ends of ``steps`` steps, reset with following seeds at every end."""
    actions = np.random.default_rng(0).integers(env.action_space.n, size=steps).astype(np.int32)
    found = [env.reset(None, [seed]).tobytes()]
    for action in actions:
        step = env.step(np.array([action]))
        found.append((step.observation.tobytes(), step.reward.item(), step.terminated.item()))
        if step.terminated.item():
            seed += 1
            found.append(env.reset(step.terminated, [seed]).tobytes())
    return found


@pytest.mark.parametrize("game", GAMES)
def test_minatar_episodes_follow_from_their_seeds(game: Any) -> None:
    one, other = (open_environment(f"MinAtar/{game}-v1") for _ in range(2))
    assert (one.name, one.not_exact) == (f"MinAtar/{game}-v1", None)
    for seed, steps in ((1, 37), (2**63 - 1, 11)):  # another history, that ends in mid-episode
        episode(other, seed, steps)
    expected = episode(one, 2**40)
    assert episode(other, 2**40) == expected
    assert episode(one, 2**40) == expected
    assert episode(one, 2**40 + 1) != expected


def test_minatar_clears_the_last_action() -> None:
    env = make("MinAtar/Breakout-v1")
    env.reset(seed=0)
    env.step(2)
    assert env.unwrapped.game.last_action == env.unwrapped.action_set[2]
    env.reset(seed=0)
    assert env.unwrapped.game.last_action == 0


def test_minatar_is_exact_with_its_wrapper_only_which_a_similar_one_keeps() -> None:
    make("MinAtar/Breakout-v1")
    bare = gymnasium.make("MinAtar/Breakout-v1", disable_env_checker=True)
    assert open_environment(bare).not_exact.startswith("MinAtar keeps its last action")
    assert open_environment(FromSeed(bare)).not_exact is None
    assert open_environment(make("MinAtar/Breakout-v1", 2)).not_exact is None
    fresh = similar(make("MinAtar/Breakout-v1", sticky_action_prob=0.25))
    assert "FromSeed" in str(fresh)
    assert fresh.unwrapped.game.sticky_action_prob == 0.25
