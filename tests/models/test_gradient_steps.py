"""Gradient steps of algorithms with an actor and critics: several in an update, and the norm that each clips."""

from typing import Any

import numpy as np
import pytest

from axonrl.models import sac, td3
from axonrl.tests.models.deterministic import BATCH, CONFIG, F32
from axonrl.tests.models.executed import traced

PARAMS: dict[Any, dict[str, Any]] = {
    sac: {"hidden": (3,), "optimizer": "sgd", "learning_rate": 0.1, "target_update_rate": 0.3},
    td3: {"hidden": (3,), "optimizer": "sgd", "learning_rate": 0.1, "policy_delay": 3},
}
DRAWS = {sac: 2, td3: 1}  # the actor's noise and the next action's, or the smoothing's


@pytest.mark.parametrize("algorithm", [sac, td3])
def test_several_are_that_many_updates_on_the_parts_of_the_batch(algorithm: Any) -> None:
    params = {**PARAMS[algorithm], "max_gradient_norm": 0.7}
    rng = np.random.default_rng(0)
    batch = {name: np.concatenate([value, F32(0.5) * value[::-1]]) for name, value in BATCH.items()}
    one = traced(algorithm.model_fn, params, CONFIG, BATCH)
    two = traced(algorithm.model_fn, {**params, "updates": 2}, CONFIG, batch)
    two.executor.set_weights(one.executor.get_weights())
    for update in range(3):  # the actor of TD3 learns in steps 0 and 3: the first one of an update, the second, none
        draws = [rng.standard_normal((6, 1)).astype(F32) for _ in range(DRAWS[algorithm])]
        singles = []
        for part, rows in enumerate((slice(0, 3), slice(3, 6))):
            own = {name: value[rows] for name, value in batch.items()}
            singles.append(one.train(2 * update + part, [draw[rows] for draw in draws], **own))
        found = two.train(update, draws)
        expected = np.concatenate([single.pop("td_error") for single in singles])
        np.testing.assert_allclose(found.pop("td_error"), expected, rtol=1e-4, atol=1e-6)
        for name, value in found.items():
            assert value == pytest.approx(np.mean([single[name] for single in singles]), rel=1e-4), name
    two.check(one.weights, 1e-4, 1e-6)


@pytest.mark.parametrize("algorithm", [sac, td3])
def test_norms_are_before_clipping_and_each_has_its_own(algorithm: Any) -> None:
    draws = [np.full((3, 1), 0.5, F32)] * DRAWS[algorithm]
    results, length, begun = {}, {}, None
    for limit in (1e9, 1e-3):
        model = traced(algorithm.model_fn, {**PARAMS[algorithm], "max_gradient_norm": limit}, CONFIG, BATCH)
        begun = begun or model.weights
        model.set(begun)
        results[limit] = model.train(0, draws)
        for part in ("critic", "actor"):
            moves = [value - begun[name] for name, value in model.weights.items() if name.startswith(part)]
            length[limit, part] = float(np.sqrt(sum(np.sum(np.square(move)) for move in moves))) / 0.1
    for part in ("critic", "actor"):
        assert length[1e-3, part] == pytest.approx(1e-3, rel=0.02)
        assert results[1e9][f"{part}_gradient_norm"] == pytest.approx(length[1e9, part], rel=1e-4)
    assert results[1e-3]["critic_gradient_norm"] == pytest.approx(length[1e9, "critic"], rel=1e-4)
