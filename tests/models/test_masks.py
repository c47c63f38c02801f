"""Masks in the programs of algorithms, in TensorFlow and in LiteRT, worked out by hand on logits that are a bias."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.contracts import NO_LEGAL_ACTION, ArraySpec
from axonrl.environments import spaces as layouts
from axonrl.explorations import Boltzmann
from axonrl.models import c51, dqn, ppo
from axonrl.runs.programs import shared
from axonrl.runtimes.choosing import choose
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn

F32 = np.float32
THREE = spaces.Discrete(3, start=5)
LINEAR = {"hidden": (), "optimizer": "sgd", "learning_rate": 0.1, "max_gradient_norm": None}
RUNTIMES = pytest.mark.parametrize("runtime", ["tensorflow", "litert"])


class Made:
    """An algorithm's programs for a Dict of two numbers and a mask, whose kernels are zero."""

    def __init__(self, algorithm: Any, actions: Any, params: Mapping[str, Any], batch: Any, runtime: str) -> None:
        size = int(np.sum(getattr(actions, "nvec", getattr(actions, "n", 0))))
        space = spaces.Dict({"action_mask": spaces.MultiBinary(size), "observation": spaces.Box(-1, 1, (2,))})
        config = RunConfig(observation_space=space, action_space=actions)
        program = Program(
            BoundModelFn(algorithm.model_fn, {**LINEAR, **params}, config, None), layouts.observation_spec(space), 0
        )
        self.predict = program.predict
        self.traced = program.trace_train(_specs(batch))
        self._executor = choose(program, self.traced, runtime, None, shared)[0]

    def set(self, **biases: Any) -> None:
        """``online_logits=...``; kernels become zero."""
        weights = self._executor.get_weights()
        for name, value in weights.items():
            if not name.endswith(("/kernel", "/bias")):
                continue  # of the optimizer
            short = name.partition(".")[2].removesuffix("/bias").replace("/", "_")
            weights[name] = np.array(biases.get(short, np.zeros_like(value)), F32).reshape(value.shape)
        self._executor.set_weights(weights)

    def act(self, mask: Any) -> dict[str, Any]:
        return self._executor.act(observations(mask))[0]

    def train(self, batch: Any) -> tuple[dict[str, float], Any]:
        counters = {"global_step": 1, "global_timestep": 1, "progress": 0.0}
        rows = [np.arange(len(batch["reward"]), dtype=np.int32)] * len(self.traced.noise)
        result = self._executor.train(batch, counters, rows)
        return dict(zip(("loss", *self.traced.metrics), result.scalars.tolist(), strict=True)), result.td_error

    def bias(self, name: str) -> Any:
        weights = self._executor.get_weights()
        return next(value for key, value in weights.items() if key.endswith(f"{name}/bias"))


def _specs(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _specs(value) for name, value in tree.items()}
    return ArraySpec(tree.shape, tree.dtype)


def observations(mask: Any) -> dict[str, Any]:
    mask = np.array(mask, np.int8)
    return {"action_mask": mask, "observation": np.zeros((*mask.shape[:-1], 2), F32)}


MASK = [[1, 0, 1], [1, 0, 1]]
BATCH: dict[str, Any] = {
    "observation": observations(MASK),
    "action": np.array([5, 7], np.int32),
    "reward": np.array([0.25, 0.5], F32),
    "terminated": np.array([0, 1], F32),
    "truncated": np.array([0, 0], F32),
    "discount": np.array([0.5, 0], F32),
    "next_observation": observations([[1, 0, 1], [0, 0, 0]]),  # the second is terminal, and nothing is legal there
}


@RUNTIMES
@pytest.mark.parametrize(("double", "bootstrap"), [(True, 4), (False, 5)])
def test_dqn(double: bool, bootstrap: float, runtime: str) -> None:
    made = Made(dqn, THREE, {"double": double, "exploration": "boltzmann", "temperature": 2}, BATCH, runtime)
    made.set(online_q_values=[1, 3, 2], target_q_values=[5, 9, 4])
    predictions = made.act([[1, 0, 1], [1, 0, 0], [0, 0, 0]])
    assert predictions["action"].tolist() == [7, 5, NO_LEGAL_ACTION]
    assert predictions["q_values"].tolist() == [[1, 3, 2]] * 3
    assert predictions["action_mask"].tolist() == [[True, False, True], [True, False, False], [False] * 3]
    assert isinstance(made.predict.exploration, Boltzmann)
    assert made.predict.exploration.level(0) == 2
    _, td_error = made.train(BATCH)
    np.testing.assert_allclose(td_error, [0.25 + 0.5 * bootstrap - 1, 0.5 - 2])


@RUNTIMES
@pytest.mark.parametrize(("double", "target"), [(False, [0.225, 0.65, 0.125]), (True, [0.4375, 0.5, 0.0625])])
def test_c51(double: bool, target: Any, runtime: str) -> None:
    """As in test_c51, with an illegal action between the two, whose return is always the highest."""
    online, best = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [1e-6, 1e-6, 1]
    made = Made(c51, THREE, {"atoms": 3, "v_min": 0, "v_max": 2, "double": double}, BATCH, runtime)
    made.set(
        online_logits=np.log([online[0], best, online[1]]),
        target_logits=np.log([[0.2, 0.3, 0.5], best, [0.5, 0.25, 0.25]]),
    )
    assert made.act(MASK)["action"].tolist() == [7, 7]
    m = np.array([target, [0.5, 0.5, 0]])
    divergence = (m * np.log(np.where(m > 0, m, 1) / np.array(online))).sum(1)
    np.testing.assert_allclose(made.train(BATCH)[1], divergence, rtol=1e-5)


@RUNTIMES
@pytest.mark.parametrize(
    ("actions", "logits", "mask", "entropy", "taken"),
    [
        (THREE, [1.0, 96, 3], [1, 0, 1], -0.25 * np.log(0.25) - 0.75 * np.log(0.75), [5, 7]),
        (spaces.MultiDiscrete([2, 2], start=[3, 0]), [1, 9, 1, 1], [1, 0, 1, 1], np.log(2), [[3, 0], [3, 1]]),
    ],
)
def test_ppo_learns_with_the_probabilities_that_it_acted_with(
    actions: Any, logits: Any, mask: Any, entropy: float, taken: Any, runtime: str
) -> None:
    rows = 4
    one = {name: np.zeros((rows, 1), F32) for name in ("reward", "discount", "truncated", "log_prob", "value")}
    batch: dict[str, Any] = {
        **one,
        "terminated": np.ones((rows, 1), F32),
        "observation": observations([[mask]] * rows),
        "next_observation": observations(np.zeros((rows, 1, len(mask)))),
        "action": np.zeros((rows, 1, *actions.shape), np.int32),
        "reward": np.array([[1], [0], [1], [3]], F32),
    }
    params = {"epochs": 1, "minibatch_size": None, "normalize_advantages": False, "entropy_coefficient": 0.1}
    made = Made(ppo, actions, params, batch, runtime)
    made.set(policy_head=np.log(logits))
    predictions = made.act([mask] * rows + [[0] * len(mask)])
    greedy = np.array(taken[1] if isinstance(taken[1], int) else taken[0])  # the first of equal ones
    assert predictions["action"].tolist() == [greedy.tolist()] * rows + [np.full_like(greedy, NO_LEGAL_ACTION).tolist()]

    acted = {name: value[:rows] for name, value in predictions.items()}
    assert made.predict.exploration is not None
    action, extras = made.predict.exploration(acted, 0, np.random.default_rng(1))
    assert all(one in taken for one in action.tolist())
    batch |= {"action": action[:, None], "log_prob": extras["log_prob"][:, None]}
    scalars, _ = made.train(batch)
    assert scalars["kl"] == pytest.approx(0, abs=1e-6)  # so every ratio is 1
    assert scalars["clip_fraction"] == 0
    assert scalars["entropy"] == pytest.approx(entropy, rel=1e-5)
    assert scalars["policy_loss"] == pytest.approx(-1.25)
    moved = made.bias("policy/head") - np.log(np.array(logits, F32))
    assert (moved[~np.array(mask, bool)] == 0).all()
    assert np.abs(moved).max() > 1e-3
