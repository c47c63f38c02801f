"""Decays and exploration, with numbers by hand."""

from typing import Any

import numpy as np
import pytest

from axonrl.compat.rlgraph.processing.decays import make_decay
from axonrl.compat.rlgraph.processing.exploration import make_exploration

from .agents import box, refused

FOUR = {"": box((), "int32", num_categories=4, low=0, high=4)}
ARM = {"": box((2,), low=np.array([-1.0, -10.0]), high=np.array([1.0, 10.0]))}


def made(spec: Any, spaces: Any = FOUR) -> Any:
    exploration = make_exploration("exploration_spec", spec, spaces)
    assert exploration is not None
    return exploration


def decaying(decay: Any) -> dict[str, Any]:
    return {"epsilon_spec": {"decay_spec": decay}}


def noise(kind: str, spaces: Any = ARM, **arguments: Any) -> Any:
    return made({"noise_spec": {"type": kind, **arguments}}, spaces)


def values(spec: Any, *times: int) -> list[float]:
    return [make_decay("decay_spec", spec)(t) for t in times]


def test_decays() -> None:
    window = {"to": 0.2, "start_timestep": 20, "num_timesteps": 80}
    for spec in (window, {**window, "type": "linear_decay", "from_": 1.0}, {**window, "type": "Linear-Decay"}):
        assert values(spec, 0, 20, 100, 10**9) == [1.0, 1.0, 0.2, 0.2]
        assert values(spec, 40, 60) == pytest.approx([0.8, 0.6])
    assert values({}, 0, 2500, 10_000) == [1.0, 0.75, 0.0]
    assert values("linear_decay", 5000) == [0.5]
    spec = {"type": "polynomial_decay", "power": 2, "from": 3, "to": 1, "num_timesteps": 10}
    assert values(spec, 0, 5, 10) == [3.0, 1.5, 1.0]  # 1 + 2 * 0.5 ** 2
    assert values({**spec, "power": 1.0}, 5) == [2.0]
    spec = {"type": "exponential_decay", "from": 0.9, "to": 0.1, "start_timestep": 10, "num_timesteps": 100}
    assert values({**spec, "half_life": 25}, 10, 35, 60, 109, 110) == pytest.approx(
        [0.9, 0.5, 0.3, 0.1 + 0.8 * 0.5 ** (99 / 25), 0.1]
    )
    assert values({**spec, "num_half_lives": 4}, 35, 60) == pytest.approx([0.5, 0.3])
    assert values(spec, 20, 110) == pytest.approx([0.5, 0.1])  # 10 half-lives
    assert make_decay("d", spec).spec["half_life"] == 10.0
    assert values({"type": "constant_decay", "constant_value": 0.3, "num_timesteps": 5}, 0, 3, 99) == [0.3] * 3
    assert values(0.5, 0, 9) == [0.5, 0.5]
    assert make_decay("d", 2).constant == 2.0
    assert make_decay("d", {}).constant is None


def drawn(exploration: Any, greedy: Any, t: int, seed: int = 3) -> tuple[Any, Any]:
    actions, used = exploration(
        {"": np.asarray(greedy)}, t, np.random.default_rng(seed), [str(row) for row in range(len(greedy))]
    )
    return actions[""], used


def test_a_row_is_random_or_not() -> None:
    spaces = {
        "a": box((3,), "int32", num_categories=1000, low=np.array([0, 5, 5]), high=np.array([1000, 1005, 1005])),
        "b": box((), "uint8", num_categories=200, low=50, high=250),
        "c": box((), "bool"),
    }
    exploration = made(decaying(0.5), spaces)
    greedy: dict[str, Any] = {
        "a": np.full((60, 3), -1, np.int32),
        "b": np.full(60, 255, np.uint8),
        "c": np.ones(60, np.bool_),
    }
    actions, used = exploration(greedy, 1, np.random.default_rng(0), [str(row) for row in range(60)])
    assert 15 < used.sum() < 45
    assert {name: a.dtype for name, a in actions.items()} == {name: np.dtype(s.dtype) for name, s in spaces.items()}
    assert ((actions["a"] >= 0) == used[:, None]).all()
    assert (actions["a"][used][:, 1:] >= 5).all()
    assert ((actions["b"] != 255) == used).all()
    assert actions["b"][used].min() >= 50
    assert actions["c"][~used].all()
    assert not actions["c"][used].all()


def test_constant_noise_is_clipped() -> None:
    exploration = noise("constant_noise", value=2.5)
    actions, used = drawn(exploration, np.array([[0.0, 0.0], [-3.0, 9.0]], np.float32), 1)
    assert (actions.tolist(), actions.dtype) == ([[1.0, 2.5], [-0.5, 10.0]], np.float32)
    assert used.tolist() == [True, True]
    assert exploration.level(9) == 2.5


def test_gaussian_noise() -> None:
    free = {"": box((2,))}
    exploration = noise("gaussian_noise", free, mean=3.0, stddev=0.5)
    found = drawn(exploration, np.ones((10_000, 2), np.float32), 1)[0]
    assert found.mean(0) == pytest.approx([4.0, 4.0], abs=0.025)  # five standard deviations
    assert found.std(0) == pytest.approx([0.5, 0.5], abs=0.02)
    assert abs(np.corrcoef(found.T)[0, 1]) < 0.05
    assert exploration.level(1) == 0.5


def test_ornstein_uhlenbeck_noise() -> None:
    exploration = noise("ornstein_uhlenbeck", {"": box()}, sigma=0.0, mu=1.0, theta=0.5)
    zero = {"": np.zeros(2, np.float32)}
    rng = np.random.default_rng(0)
    assert exploration(zero, 1, rng, ["0", "4"])[0][""].tolist() == [1.0, 1.0]  # begins at mu
    exploration.load_state_dict({"0": {"": np.float32(5.0)}, "4": {"": np.float32(-3.0)}})
    assert exploration(zero, 1, rng, ["4", "0"])[0][""].tolist() == [-1.0, 3.0]  # x + (1 - x) / 2
    assert exploration({"": np.full(1, 10, np.float32)}, 1, rng, ["0"])[0][""].tolist() == [12.0]
    assert exploration(zero, 1, rng, ["4", "9"])[0][""].tolist() == [0.0, 1.0]
    assert list(exploration.state_dict()) == ["0", "4", "9"]


def test_ornstein_uhlenbeck_noise_goes_on_from_what_was_saved() -> None:
    first, second = (noise("ornstein-uhlenbeck") for _ in range(2))
    greedy = {"": np.zeros((3, 2), np.float32)}
    moved = first(greedy, 1, np.random.default_rng(1), ["a", "b", "c"])[0][""]
    normal = np.random.default_rng(1).standard_normal((3, 2), np.float32)
    assert moved == pytest.approx(np.clip(0.3 * normal, [-1, -10], [1, 10]))
    second.load_state_dict(first.state_dict())
    one, other = (e(greedy, 2, np.random.default_rng(2), ["a", "b", "c"])[0][""] for e in (first, second))
    assert (one == other).all()


@pytest.mark.parametrize(
    ("spec", "spaces", "argument"),
    [
        (decaying({"from": 1.0, "from_": 1.0}), FOUR, "['epsilon_spec']['decay_spec']['from_']"),
        (decaying({"num_timesteps": 0}), FOUR, "['epsilon_spec']['decay_spec']['num_timesteps']"),
        (decaying({"from": 1.5}), FOUR, "['epsilon_spec']['decay_spec']['from']"),
        (decaying({}), ARM, "['epsilon_spec']"),
        ({"noise_spec": "gaussian_noise"}, FOUR, "['noise_spec']"),
        ({**decaying({}), "noise_spec": "gaussian_noise"}, ARM, ""),
        ({"noise_spec": {"type": "pink"}}, ARM, "['noise_spec']['type']"),
    ],
)
def test_what_does_not_fit_is_named(spec: Any, spaces: Any, argument: str) -> None:
    assert refused(make_exploration, "exploration_spec", spec, spaces).argument == f"exploration_spec{argument}"
