"""TD3+BC: the actor's loss by hand, beside TD3's critics."""

import numpy as np
import pytest

from axonrl.models import td3, td3_bc
from axonrl.tests.models.deterministic import ACTION, ACTOR, BATCH, CONFIG, F32
from axonrl.tests.models.executed import LINEAR, traced

PARAMS = {**LINEAR, "smoothing": 0.0, "policy_delay": 1}
CRITICS = {"critic1/q_value/kernel": [0.5, 2.0], "critic2/q_value/kernel": [0.4, 2.2]}
ACTORS = {"actor/mu/kernel": ACTOR[0], "actor/mu/bias": ACTOR[1]}
NOISE = [np.zeros((3, 1), F32)]


@pytest.mark.parametrize("alpha", [2.5, 0.0])
def test_the_actor_imitates_and_maximises_the_normalised_value(alpha: float) -> None:
    plain = traced(td3.model_fn, PARAMS, CONFIG, BATCH, "litert")
    imitating = traced(td3_bc.model_fn, {**PARAMS, "value_weight": alpha}, CONFIG, BATCH, "litert")
    for model in (plain, imitating):
        model.set({**CRITICS, **ACTORS})
    expected, found = plain.train(0, NOISE), imitating.train(0, NOISE)
    critic = {name: value for name, value in plain.weights.items() if name.startswith("critic")}
    imitating.check(critic, rtol=0)
    s = BATCH["observation"].ravel()
    by_s, by_a = critic["critic1/q_value/kernel"].ravel()
    action = np.tanh(ACTOR[0] * s + ACTOR[1])
    value = by_s * s + by_a * action + critic["critic1/q_value/bias"]
    scale = alpha / np.abs(value).mean()
    assert found["actor_loss"] == pytest.approx(np.mean((action - ACTION) ** 2) - scale * value.mean(), rel=1e-5)
    by_u = (2 * (action - ACTION) - scale * by_a) * (1 - action**2)
    after = ACTOR - 0.1 * np.mean(by_u * np.array([s, np.ones(3)]), axis=1)
    imitating.check({"actor/mu/kernel": after[0], "actor/mu/bias": after[1]})
    assert [found[name] for name in ("loss", "q_mean")] == pytest.approx(
        [expected[name] for name in ("loss", "q_mean")]
    )
