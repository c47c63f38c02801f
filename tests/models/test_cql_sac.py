"""CQL over SAC against NumPy, on networks that are one matrix: Q(s, a) = [s a] w + b."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats
from scipy.special import logsumexp

from axonrl import RunConfig
from axonrl.models import cql_sac, sac
from axonrl.tests.models.executed import LINEAR, Model, layers, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Box(0, 4, (2,)))
PARAMS = {**LINEAR, "target_update_rate": 0.25, "temperature": 0.5}
# Actions are -0.5, 0 and 0.5, -1 in -1 .. 1
BATCH = transitions(
    np.array([[1], [2]], F32),
    np.array([[1, 2], [3, 0]], F32),
    [1, -1],
    next_observation=np.array([[2], [3]], F32),
    weight=[1, 0.5],
)
RNG = np.random.default_rng(0)
SAMPLES = 3
DRAWS = [  # the actor's, the next action's, uniform actions, the noise of the policy's
    *(RNG.normal(size=(2, 2)).astype(F32) for _ in range(2)),
    RNG.uniform(-1, 1, (2, SAMPLES, 2)).astype(F32),
    RNG.normal(size=(2, SAMPLES, 2)).astype(F32),
]
ACTOR = {"mean": RNG.normal(size=(2, 2)), "log_std": 0.3 * RNG.normal(size=(2, 2))}  # the last row is the bias
CRITICS = {f"{name}{i}": RNG.normal(size=4) for name in ("critic", "target") for i in (1, 2)}


def named() -> dict[str, Any]:
    critics = {f"{name}/q_value": (value[:-1], value[-1]) for name, value in CRITICS.items()}
    return layers({**{f"actor/{head}": pair for head, pair in ACTOR.items()}, **critics})


def linear(runtime: str, weight: float) -> Model:
    params = {**PARAMS, "conservative_weight": weight, "samples": SAMPLES}
    model = Model(cql_sac.model_fn, params, CONFIG, BATCH, runtime)
    model.set(named())
    return model


def value(critic: Any, seen: Any, action: Any) -> Any:
    return np.concatenate([seen, action], axis=-1) @ critic[:-1] + critic[-1]


def drawn(seen: Any, noise: Any) -> tuple[Any, Any]:
    """Actions in -1 .. 1 and their log-densities, for observations [..., 1] and noise [..., 2]."""
    mean, log_std = (np.concatenate([seen, np.ones_like(seen)], axis=-1) @ ACTOR[head] for head in ("mean", "log_std"))
    unsquashed = mean + np.exp(log_std) * noise
    density = stats.norm.logpdf(unsquashed, mean, np.exp(log_std)) - np.log(1 - np.tanh(unsquashed) ** 2)
    return np.tanh(unsquashed), density.sum(axis=-1)


def by_hand(critics: Any, weight: float) -> dict[str, Any]:
    """The critics' loss (equation 4) in float64, and what it is made of."""
    seen, following, action = BATCH["observation"], BATCH["next_observation"], BATCH["action"] / 2 - 1
    targets = [0.25 * CRITICS[f"critic{i}"] + 0.75 * CRITICS[f"target{i}"] for i in (1, 2)]
    next_action, next_density = drawn(following, DRAWS[1].astype(np.float64))
    next_value = np.minimum(*(value(one, following, next_action) for one in targets)) - 0.5 * next_density
    target = BATCH["reward"] + BATCH["discount"] * next_value
    many = np.repeat(seen[:, None], SAMPLES, axis=1)  # [B, N, 1]
    own, density = drawn(many, DRAWS[3].astype(np.float64))
    loss = 0.0
    gaps: list[Any] = []
    errors: list[Any] = []
    q_values: list[Any] = []
    for critic in critics:
        q_value = value(critic, seen, action)
        weighted = [value(critic, many, DRAWS[2]) - 2 * np.log(0.5), value(critic, many, own) - density]
        gap = logsumexp(np.concatenate(weighted, axis=1), axis=1) - np.log(2 * SAMPLES) - q_value
        loss += np.mean(BATCH["weight"] * ((target - q_value) ** 2 / 2 + weight * gap))
        gaps, errors, q_values = [*gaps, gap], [*errors, target - q_value], [*q_values, q_value]
    return {"loss": loss, "conservative_error": np.mean(gaps), "td_error": sum(errors) / 2, "q_mean": np.mean(q_values)}


def test_the_critics_learn_as_in_the_paper() -> None:
    """The loss against NumPy, and the weights after it against its differences."""
    model, critics = linear("litert", 2.0), [CRITICS["critic1"], CRITICS["critic2"]]
    found, expected = model.train(draws=DRAWS), by_hand(critics, 2.0)
    np.testing.assert_allclose(found["td_error"], expected.pop("td_error"), rtol=1e-4)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    for i in (0, 1):
        gradient = []
        for k in range(4):
            higher, lower = ([one.copy() for one in critics] for _ in range(2))
            higher[i][k] += 1e-5
            lower[i][k] -= 1e-5
            gradient.append((by_hand(higher, 2.0)["loss"] - by_hand(lower, 2.0)["loss"]) / 2e-5)
        name = f"critic{i + 1}/q_value"
        after = np.append(model.weights[f"{name}/kernel"].ravel(), model.weights[f"{name}/bias"])
        np.testing.assert_allclose(after, critics[i] - 0.1 * np.array(gradient), rtol=2e-4, atol=1e-5)


def test_without_a_weight_it_is_sac() -> None:
    plain = Model(sac.model_fn, PARAMS, CONFIG, BATCH, "tensorflow")
    plain.set(named())
    conservative = linear("tensorflow", 0.0)
    expected, found = plain.train(draws=DRAWS[:2]), conservative.train(draws=DRAWS)
    np.testing.assert_allclose(found.pop("td_error"), expected.pop("td_error"), rtol=1e-5)
    found.pop("conservative_error")
    assert found == pytest.approx(expected, rel=1e-5)
    conservative.check(plain.weights, atol=1e-7)
