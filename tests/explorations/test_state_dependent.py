"""State-dependent exploration: noise by hand, log-probabilities by scipy, and what becomes of the matrices."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats

from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.explorations import StateDependent
from axonrl.tests.raising import raised

F32 = np.float32
BOX = spaces.Box(np.array([-1, 0], F32), np.array([1, 4], F32))
MEAN = np.array([[0.5, -0.2], [0.1, 0.3]], F32)
SCALED = np.array([[[1, 0], [2, 0.5], [0, 1]], [[0.5, 0.5], [0, 0], [1, 2]]], F32)  # [N, W, D]
PREDICTIONS = {"mean": MEAN, "scaled_features": SCALED}
MATRIX = np.array([[0.1, 0.2], [0.3, -0.4], [-0.5, 0.6]], F32)
NOISE = np.array([[0.7, 0.4], [-0.45, 1.3]])  # of that matrix


class Scripted:
    """Stands in for a generator: hands out the same matrices, each time scaled by one more."""

    def __init__(self) -> None:
        self.drawn: list[int] = []

    def standard_normal(self, shape: Any, dtype: Any) -> Any:
        self.drawn.append(shape[0])
        return np.broadcast_to(MATRIX * len(self.drawn), shape).astype(dtype)


def test_noise_by_hand_and_its_log_probability() -> None:
    actions, extras = StateDependent(BOX)(PREDICTIONS, 0, Scripted())  # type: ignore[arg-type]
    np.testing.assert_allclose(actions, MEAN + NOISE, rtol=1e-6)
    std = np.sqrt(np.array([[5, 1.25], [1.25, 4.25]]))
    np.testing.assert_allclose(extras["log_prob"], stats.norm.logpdf(NOISE, 0, std).sum(1), rtol=1e-5)
    assert actions.dtype == extras["log_prob"].dtype == np.float32


def test_squashed_actions_have_the_density_of_a_change_of_variables() -> None:
    actions, extras = StateDependent(BOX, squashed=True)(PREDICTIONS, 0, Scripted())  # type: ignore[arg-type]
    u = MEAN + NOISE
    np.testing.assert_allclose(actions, [0, 2] + np.tanh(u) * [1, 2], rtol=1e-6)
    std = np.sqrt(np.array([[5, 1.25], [1.25, 4.25]]))
    density = stats.norm.logpdf(NOISE, 0, std) - np.log(1 - np.tanh(u) ** 2)
    np.testing.assert_allclose(extras["log_prob"], density.sum(1), rtol=1e-5)


def test_a_matrix_stays_for_an_episode_or_as_many_timesteps_as_it_is_told() -> None:
    rng: Any = Scripted()
    policy = StateDependent(BOX)
    first, again = (policy(PREDICTIONS, 0, rng)[0] for _ in range(2))
    assert first.tolist() == again.tolist()
    policy.reset(np.array([False, True]))
    after, _ = policy(PREDICTIONS, 0, rng)
    assert rng.drawn == [2, 1]
    np.testing.assert_allclose(after, MEAN + NOISE * [[1], [2]], rtol=1e-6)
    rng = Scripted()
    policy = StateDependent(BOX, resample_every=2)
    policy(PREDICTIONS, 0, rng)
    policy.reset(np.array([False, True]))
    drawn = []
    for _ in range(4):
        policy(PREDICTIONS, 0, rng)
        drawn.append(list(rng.drawn))
    # The first environment draws at its timesteps 0, 2 and 4; the second begins anew at the other's 1.
    assert drawn == [[2, 1], [2, 1, 1], [2, 1, 1, 1], [2, 1, 1, 1, 1]]


def test_some_environments_act_alone() -> None:
    rng: Any = Scripted()
    policy = StateDependent(BOX)
    policy.reset(np.ones(3, np.bool_))
    policy.act_for(PREDICTIONS, 0, rng, np.array([2, 0]))
    assert rng.drawn == [2]
    three = {name: np.concatenate([value, value[:1]]) for name, value in PREDICTIONS.items()}
    actions, _ = policy(three, 0, rng)
    assert rng.drawn == [2, 1]  # the second environment's
    np.testing.assert_allclose(actions, three["mean"] + NOISE[[0, 1, 0]] * [[1], [2], [1]], rtol=1e-6)


def test_actions_of_any_shape() -> None:
    policy = StateDependent(spaces.Box(-1, 1, (2, 1)))
    actions, _ = policy({"mean": MEAN[..., None], "scaled_features": SCALED}, 0, Scripted())  # type: ignore[arg-type]
    np.testing.assert_allclose(actions[..., 0], MEAN + NOISE, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ((spaces.Discrete(2),), "action_space"),
        ((spaces.Box(-np.inf, 1, (2,)), None, True), "action_space"),
        ((BOX, 0), "resample_every"),
        ((BOX, None, 1), "squashed"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: Any, argument: str) -> None:
    assert raised(ArgumentError, StateDependent, *arguments).argument == argument


def test_predictions_that_do_not_fit_are_refused() -> None:
    policy, rng = StateDependent(BOX), np.random.default_rng(0)
    wrong = [
        ({"mean": MEAN}, "scaled_features"),
        ({"scaled_features": SCALED}, "mean"),
        ({"mean": MEAN, "scaled_features": SCALED[:1]}, "scaled_features"),
        ({"mean": MEAN[:, :1], "scaled_features": SCALED}, "scaled_features"),
    ]
    for predictions, name in wrong:
        assert raised(ArgumentError, policy, predictions, 0, rng).argument == f"predictions[{name!r}]"
    for broken in ({**PREDICTIONS, "mean": MEAN * F32(np.nan)}, {**PREDICTIONS, "scaled_features": SCALED * F32(1e30)}):
        raised(NonFiniteError, policy, broken, 0, rng)
