"""SACAgent: losses and targets by hand, actions, files."""

from typing import Any

import numpy as np
import pytest

from axonrl.compat.rlgraph.agents import SACAgent
from axonrl.compat.rlgraph.spaces import FloatBox

from .agents import records, refused

pytestmark = pytest.mark.usefixtures("traced_once")

LOW, HIGH = -1.0, 3.0
SAC: dict[str, Any] = {
    "state_space": FloatBox(shape=(2,)),
    "action_space": FloatBox(LOW, HIGH, shape=(1,)),
    "discount": 0.5,
    "network_spec": [{"type": "dense", "units": 4, "activation": "tanh"}],
    "memory_spec": {"type": "prioritized_replay", "capacity": 50},
    "update_spec": {"batch_size": 6},
    "value_function_sync_spec": {"sync_tau": 0.25},
    "optimizer_spec": {"type": "adam", "learning_rate": 0.01},
    "execution_spec": {"seed": 2},
}


def batch(count: int, *, terminal: bool) -> dict[str, Any]:
    actions = np.random.default_rng(count).uniform(LOW, HIGH, size=(count, 1))
    return {**records(count), "actions": actions, "terminals": np.full(count, terminal)}


def values(weights: dict[str, Any], name: str, given: dict[str, Any]) -> Any:
    """A critic's values: tanh, then linear, of states and actions in -1 .. 1."""
    squashed = (given["actions"] - (LOW + HIGH) / 2) / ((HIGH - LOW) / 2)
    hidden = np.concatenate([given["states"], squashed], axis=1)
    hidden = np.tanh(hidden @ weights[f"{name}/dense-0/kernel"] + weights[f"{name}/dense-0/bias"])
    return (hidden @ weights[f"{name}/value/kernel"] + weights[f"{name}/value/bias"])[:, 0]


def test_losses_and_targets_by_hand() -> None:
    agent = SACAgent(**SAC)
    model, given = agent.core.model, batch(6, terminal=True)
    before = model.named_weights()
    found: Any = agent.update({**given, "importance_weights": [1, 1, 1, 1, 1, 3]})
    loss, each = found
    wanted = np.mean([(given["rewards"] - values(before, f"q-{i}", given)) ** 2 for i in range(2)], axis=0)
    np.testing.assert_allclose(each, wanted * [1, 1, 1, 1, 1, 3], rtol=1e-4)
    assert loss == float(found) == pytest.approx(each.mean(), rel=1e-6)
    first = model.named_weights()
    critics = [name for name in first if name.startswith("q-")]
    assert critics
    for name in critics:  # copies at first, then a quarter of the way before each update
        np.testing.assert_array_equal(first[f"target-{name}"], before[name])
        assert not np.array_equal(first[name], before[name])
    agent.update(given)
    second = model.named_weights()
    for name in critics:
        moved = 0.25 * first[name] + 0.75 * before[name]
        np.testing.assert_allclose(second[f"target-{name}"], moved, rtol=1e-5, atol=1e-7)
    alpha = "log_temperature"
    assert before[alpha] == 0.0
    assert second[alpha] != first[alpha]


def test_actions_stay_within_the_space() -> None:
    agent, states = SACAgent(**SAC), np.random.default_rng(0).normal(size=(500, 2))
    actions = agent.get_action(states)
    assert (actions.shape, actions.dtype) == ((500, 1), np.float32)
    assert ((actions >= LOW) & (actions <= HIGH)).all()
    assert actions.std() > 0.5
    np.testing.assert_array_equal(
        agent.get_action(states[0], use_exploration=False), agent.get_action(states[0], use_exploration=False)
    )


@pytest.mark.parametrize(
    ("more", "argument"),
    [
        ({"action_space": FloatBox(shape=(1,))}, "SACAgent: action_space"),
        ({"value_function_sync_spec": {"sync_tau": 2.0}}, "SACAgent: value_function_sync_spec['sync_tau']"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], argument: str) -> None:
    assert refused(SACAgent, **{**SAC, **more}).argument == argument


def test_the_rate_of_averaging_is_the_agents() -> None:
    agent = SACAgent(**SAC)
    with agent.updating("here", {"sync_tau": 0.25}):
        pass
    with pytest.raises(ValueError, match=r"^here\['sync_tau'\] must be 0.25, got 0.5: it is a constant"):
        agent.updating("here", {"sync_tau": 0.5}).__enter__()


def test_greedy_actions_are_within_the_bounds_of_the_space() -> None:
    agent = SACAgent(**{**SAC, "action_space": FloatBox(-2.3, 1.1, shape=(1,))})
    bias = {"action-adapter/output/bias": np.full(2, 50, np.float32)}  # tanh(50) is 1
    agent.set_weights({**agent.get_weights(), **bias})
    action = agent.get_action([0.0, 0.0], use_exploration=False)
    assert action.tolist() == [np.float32(1.1)]  # -0.6 + 1.7 * 1 is rounded to the next float32
    agent.observe([0.0, 0.0], action, [], 0.0, [0.0, 0.0], False)
