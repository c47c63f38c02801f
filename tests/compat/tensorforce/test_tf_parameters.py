import json
import math
from typing import Any

import numpy as np
import pytest

from axonrl.compat.tensorforce.processing.parameters import Counts, Parameter, make_parameter

from .agents import refused

RNG = np.random.default_rng(0)  # of what does not draw


def decaying(decay: str, start: float = 1.0, steps: int = 2, **arguments: Any) -> dict[str, Any]:
    return dict(type="decaying", unit="timesteps", decay=decay, initial_value=start, decay_steps=steps, **arguments)


def at(spec: Any, *timesteps: int) -> list[float]:
    parameter = make_parameter("rate", spec)
    return [parameter.value(Counts(t, 7, 7), RNG) for t in timesteps]


@pytest.mark.parametrize(
    ("spec", "timesteps", "wanted", "final"),
    [
        (decaying("cosine", 2.0, 4, alpha=0.5), (0, 2, 4, 9), [2.0, 1.5, 1.0, 1.0], 1.0),
        (decaying("cosine_restarts", t_mul=1, m_mul=0.5), (0, 1, 2, 3, 4), [1.0, 0.5, 0.5, 0.25, 0.25], 0.0),
        (decaying("cosine_restarts", 2.0, alpha=0.25), (0, 1), [2.0, 1.25], 0.5),
        (decaying("exponential", decay_rate=0.5, staircase=True), (0, 1, 2, 3, 4), [1.0, 1.0, 0.5, 0.5, 0.25], 0.0),
        (decaying("exponential", decay_rate=1), (0, 5), [1.0, 1.0], 1.0),
        (decaying("natural", decay_rate=2), (0, 1), [1.0, math.exp(-1)], 0.0),
        (decaying("linear_cosine", 2.0, num_periods=1, alpha=0.5, beta=0), (0, 1, 2), [3.0, 0.0, 1.0], 1.0),
        (decaying("polynomial", final_value=0, power=2), (0, 1, 2, 3), [1.0, 0.25, 0.0, 0.0], 0.0),
        (decaying("polynomial", final_value=0, cycle=True), (0, 1, 2, 3, 4), [1.0, 0.5, 0.0, 0.25, 0.0], 0.0),
        (decaying("exponential", decay_rate=0.25, increasing=True), (0, 1, 2), [0.0, 0.5, 0.75], 1.0),
        (decaying("linear", 0.5, final_value=0.75, increasing=True, inverse=True, scale=3), (0, 2), [6.0, 12.0], 12.0),
        (decaying("exponential", decay_rate=4, inverse=True), (0, 1, 2, 10**6), [1.0, 0.5, 0.25, 0.0], 0.0),
    ],
)
def test_decays(spec: Any, timesteps: Any, wanted: Any, final: Any) -> None:
    assert at(spec, *timesteps) == pytest.approx(wanted, abs=1e-12)
    assert make_parameter("rate", spec).final() == pytest.approx(final, abs=1e-12)
    parameter = make_parameter("rate", spec)
    assert parameter.constant is None
    stored = json.loads(json.dumps(parameter.spec))
    assert make_parameter("rate", stored).spec == stored


@pytest.mark.parametrize("t_mul", [1, 1.5])
def test_restarts_begin_where_they_should(t_mul: Any) -> None:
    parameter = make_parameter("rate", decaying("cosine_restarts", 1.0, 10_000_000, t_mul=t_mul))
    begins = [0, 1, 1 + t_mul, 1 + t_mul + t_mul**2]
    for begin in begins:
        assert parameter.value(Counts(round(begin * 10_000_000), 0, 0), RNG) == pytest.approx(1.0, abs=1e-9)
        assert parameter.value(Counts(round(begin * 10_000_000) + 1, 0, 0), RNG) > 0.999


def test_a_schedule_follows_its_unit() -> None:
    line = decaying("linear", 0, 10, final_value=10)
    made = [make_parameter("rate", {**line, "unit": unit}) for unit in ("timesteps", "episodes", "updates")]
    assert [parameter.value(Counts(1, 2, 3), RNG) for parameter in made] == [1, 2, 3]


def test_piecewise_constant_keeps_the_left_value_at_a_boundary() -> None:
    spec = {"type": "piecewise_constant", "unit": "timesteps", "boundaries": (2, 5), "values": (3, 2, 1)}
    assert at(spec, 0, 2, 3, 5, 6) == [3, 3, 2, 2, 1]
    assert make_parameter("rate", spec).final() == 1


def test_random_parameters() -> None:
    uniform = make_parameter("rate", {"type": "random", "distribution": "uniform", "minval": 2, "maxval": 4})
    draws = [uniform.value(Counts(0, 0, 0), np.random.default_rng(seed)) for seed in range(20)]
    assert 2 <= min(draws) < 2.5
    assert 3.5 < max(draws) < 4
    assert uniform.final() == 3.0
    normal = make_parameter("rate", {"type": "random", "distribution": "normal", "mean": 5, "stddev": 2})
    assert normal.value(Counts(0, 0, 0), np.random.default_rng(3)) == np.random.default_rng(3).normal(5, 2)
    assert (normal.final(), normal.constant, normal.state_dict()) == (5.0, None, {})


def ornstein_uhlenbeck(process: float, **arguments: Any) -> Parameter:
    parameter = make_parameter("rate", {"type": "ornstein_uhlenbeck", **arguments})
    parameter.load_state_dict({"process": process})
    return parameter


def test_ornstein_uhlenbeck() -> None:
    parameter = ornstein_uhlenbeck(3.0, theta=0.5, sigma=0, mu=1)
    assert [parameter.value(Counts(0, 0, 0), RNG) for _ in range(2)] == [2.0, 1.5]
    assert parameter.state_dict() == {"process": 1.5}
    assert parameter.final() == 1.0
    assert ornstein_uhlenbeck(-3.0, theta=0.5, sigma=0, absolute=True).value(Counts(0, 0, 0), RNG) == 1.5
    fresh = make_parameter("rate", {"type": "ornstein_uhlenbeck"})  # 0 + 0.15 * 0 + 0.3 * draw
    draw = np.random.default_rng(1).standard_normal()
    assert fresh.value(Counts(0, 0, 0), np.random.default_rng(1)) == pytest.approx(0.3 * draw)
    assert ornstein_uhlenbeck(0, theta=1, sigma=1, absolute=True).final() == pytest.approx(math.sqrt(2 / math.pi))
    assert ornstein_uhlenbeck(0, theta=1, sigma=0, mu=-2, absolute=True).final() == 2.0


@pytest.mark.parametrize(
    "spec", [{"type": "ornstein_uhlenbeck", "sigma": 100}, {"type": "random", "distribution": "normal", "stddev": 100}]
)
def test_draws_outside_of_the_bounds_are_the_nearest_inside(spec: Any) -> None:
    parameter = make_parameter("rate", spec, at_least=-1, at_most=0.5)
    rng = np.random.default_rng(0)
    found = [parameter.value(Counts(0, 0, 0), rng) for _ in range(20)]
    assert (min(found), max(found)) == (-1.0, 0.5)


@pytest.mark.parametrize(
    ("spec", "argument"),
    [
        (math.inf, "rate"),
        (decaying("linear", 0.5, final_value=2), "rate"),
        ({"type": "random", "distribution": "uniform", "minval": 0, "maxval": 2}, "rate"),
        ({"type": "decayin"}, "rate['type']"),
        (decaying("exponential"), "rate['decay_rate']"),
        (dict(type="piecewise_constant", unit="updates", boundaries=[2, 2], values=[1, 1, 1]), "rate['boundaries']"),
    ],
)
def test_mistakes_and_what_leaves_its_bounds_are_named(spec: Any, argument: Any) -> None:
    assert refused(make_parameter, "rate", spec, at_most=1).argument == argument
