"""ActorCriticAgent and PPOAgent: what they learn from, and by how much, by hand."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.rlgraph import RLGraphWarning
from axonrl.compat.rlgraph.agents import ActorCriticAgent, Agent, PPOAgent
from axonrl.compat.rlgraph.agents.rollouts import Rollouts
from axonrl.compat.rlgraph.spaces import FloatBox, IntBox
from axonrl.core.protocols import Array
from axonrl.runtimes import Policy

from .agents import equal, refused

pytestmark = pytest.mark.usefixtures("traced_once")

LINEAR: dict[str, Any] = {
    "state_space": {"type": "float", "shape": (1,)},
    "action_space": {"type": "int", "low": 0, "high": 2},
    "discount": 0.5,
    "gae_lambda": 0.5,
    "network_spec": [],
    "value_function_spec": [],
    "sample_episodes": False,
    "action_adapter_spec": {"weights_spec": "zeros"},
    "observe_spec": {"buffer_size": 3},
    "update_spec": {"batch_size": 4},
    "weight_entropy": 0.25,
    "optimizer_spec": {"type": "sgd", "learning_rate": 0.5},
    "execution_spec": {"seed": 3},
}
"""Policy and values are linear in a state of one number, and the policy is uniform at first."""
PPO: dict[str, Any] = {**LINEAR, "update_spec": {"batch_size": 1, "num_iterations": 1, "sample_size": 2}}
HALF = math.log(0.5)


def actor_critic(**more: Any) -> ActorCriticAgent:
    """One with V(s) = s."""
    agent = ActorCriticAgent(**{**LINEAR, **more})
    valued(agent, 1.0, 0.0)
    return agent


def ppo(**more: Any) -> PPOAgent:
    """One with V(s) = 0."""
    agent = PPOAgent(**{**PPO, **more})
    valued(agent, 0.0, 0.0)
    return agent


def valued(agent: Agent, slope: float, offset: float) -> None:
    """The value function is a line from now on."""
    state = agent.core.state_dict()
    weights: dict[str, Array] = state["model"]["weights"]
    for name, found in weights.items():
        if name.endswith("value-function/output/kernel"):
            weights[name] = np.full_like(found, slope)
        elif name.endswith("value-function/output/bias"):
            weights[name] = np.full((1,), offset, np.float32)
    agent.core.load_state_dict(state)


def preferring(agent: Agent, probability: float) -> None:
    """Action 1 of 2 has this probability in all states from now on."""
    weights = agent.get_policy_weights()
    odds = math.log(probability / (1 - probability))
    weights["action-adapter/output/bias"] = np.array([0.0, odds], np.float32)
    weights["action-adapter/output/kernel"][:] = 0.0
    agent.set_policy_weights(weights)


def rows(rewards: list[float], terminals: list[bool]) -> list[dict[str, Any]]:
    """What a memory holds of some records: here only what it looks at."""
    return [{"reward": reward, "terminal": terminal} for reward, terminal in zip(rewards, terminals, strict=True)]


def held(memory: Rollouts) -> dict[str, Any]:
    return memory.read(memory.newest(len(memory)))


def test_what_makes_room_is_no_whole_episode() -> None:
    memory = Rollouts(4)
    memory.insert("a", rows([1, 2, 3], [False, False, True]))
    memory.insert("a", rows([4, 5], [False, False]))
    assert held(memory)["reward"].tolist() == [2, 3, 4, 5]
    assert memory.whole_episodes() == []
    memory.insert("b", rows([6], [True]))
    memory.insert("a", rows([7, 8], [False, True]))
    assert held(memory)["reward"].tolist() == [5, 6, 7, 8]
    assert len(memory.whole_episodes()) == 1


def observe_two(agent: Agent) -> None:
    """Environment a: a record from 4 to 6 and the next to 8, which goes on; b: from 1 to 2, and a terminal one."""
    for name, state, after, reward, terminal in (
        ("a", 4.0, 6.0, 1.0, False),
        ("b", 1.0, 2.0, 10.0, False),
        ("b", 2.0, 50.0, 20.0, True),
        ("a", 6.0, 8.0, 2.5, False),
    ):
        agent.observe([state], 1, [], reward, [after], terminal, env_id=name)


ADVANTAGES = [10 + 1 - 1 + 4.5, 18.0, 1 + 3 - 4 + 0.125, 2.5 + 4 - 6]
"""In the order of the flushes: b at its terminal, then a."""


def test_actor_critic_learns_from_the_newest_records_and_drops_them_and_from_too_few_nothing() -> None:
    agent = actor_critic()
    agent.observe([0.0], 0, [], 5.0, [0.0], True, env_id="b")  # older than the batch: it stays
    observe_two(agent)
    assert (len(agent.memory), len(agent.states_buffer["a"])) == (3, 2)
    assert agent.can_update
    loss, per_item, value_loss, value_per_item = result = agent.update()
    np.testing.assert_allclose(per_item, [-HALF * a + 0.25 * HALF for a in ADVANTAGES], rtol=1e-6)
    np.testing.assert_allclose(value_per_item, np.square(ADVANTAGES), rtol=1e-6)
    assert float(result) == loss == pytest.approx(np.mean(per_item))
    assert agent.updates == 1
    assert value_loss == pytest.approx(np.mean(value_per_item))
    assert held(agent.memory)["reward"].tolist() == [5.0]
    assert not any(agent.states_buffer.values())
    # the gradient of -log p(1) A by the logit of action 1 is -A / 2, and entropy has none where it is highest
    bias = agent.get_policy_weights()["action-adapter/output/bias"]
    np.testing.assert_allclose(bias, 0.5 * np.mean(ADVANTAGES) / 2 * np.array([-1, 1]), rtol=1e-5)
    before = agent.get_policy_weights()
    agent.observe([0.0], 0, [], 1.0, [1.0], env_id="a")
    assert not agent.core.can_update()
    error = refused(agent.update)
    assert ("4 records" in str(error), error.value) == (True, 2)
    assert (len(agent.memory), len(agent.rewards_buffer["a"]), agent.updates) == (1, 1, 1)
    assert equal(before, agent.get_policy_weights())


@pytest.mark.usefixtures("unconverted")
def test_whole_episodes_are_drawn_and_dropped() -> None:
    agent = actor_critic(sample_episodes=True, update_spec={"batch_size": 1})
    for k in range(5):  # over two flushes
        assert not agent.can_update
        agent.observe([float(k)], 0, [], 1.0, [k + 1.0], k == 4, env_id="a")
    agent.observe([7.0], 0, [], 1.0, [8.0], env_id="b")
    assert len(agent.memory) == 5
    assert agent.can_update
    per_item, values = agent.update()[1::2]
    deltas = [1 + 0.5 * (k + 1) - k for k in range(4)] + [1 - 4]
    advantages = [sum(0.25**j * delta for j, delta in enumerate(deltas[k:])) for k in range(5)]
    np.testing.assert_allclose(values, np.square(advantages), rtol=1e-5)
    np.testing.assert_allclose(per_item, [-HALF * a + 0.25 * HALF for a in advantages], rtol=1e-5, atol=1e-6)
    assert (len(agent.memory), len(agent.states_buffer["b"])) == (0, 1)
    error = refused(agent.update)
    assert "1 whole episodes" in str(error)
    assert error.value == 0
    valued(agent, 1.0, 0.0)
    agent.flush_env_buffers("b")  # a time limit: the episode ends, and bootstraps
    assert agent.update()[3] == pytest.approx([(1 + 0.5 * 8 - 7) ** 2])
    for k in range(3):
        agent.observe([float(k)], 0, [], 1.0, [k + 1.0])
    assert (len(agent.memory), agent.core.can_update()) == (3, False)
    agent.flush_env_buffers("env_0")  # after a full buffer
    assert agent.core.can_update()


def test_a_memory_that_is_full_is_learnt_from() -> None:
    with pytest.warns(RLGraphWarning, match="less than a batch of 4"):
        agent = actor_critic(memory_spec={"type": "ring_buffer", "capacity": 3})
    for k in range(3):
        assert not agent.can_update
        agent.observe([float(k)], 0, [], 1.0, [k + 1.0])
    assert len(agent.update()[1]) == 3
    agent = actor_critic(
        sample_episodes=True, memory_spec={"type": "ring_buffer", "capacity": 5}, update_spec={"batch_size": 3}
    )
    for k in range(6):  # of three episodes of two records the first has lost one
        assert not agent.can_update
        agent.observe([float(k)], 0, [], 1.0, [k + 1.0], k % 2 == 1)
    assert len(agent.update()[1]) == 4


def test_values_may_share_the_network_of_the_policy() -> None:
    dense = [{"type": "dense", "units": 3, "activation": "tanh", "scope": "hidden"}]
    shared: dict[str, Any] = {"network_spec": dense, "value_function_spec": None, "action_adapter_spec": None}
    agent = actor_critic(**shared, weight_entropy=0.0)
    before = agent.get_policy_weights()
    assert not [name for name in agent.core.state_dict()["model"]["weights"] if "value-function/hidden" in name]
    state = np.array([[0.5]], np.float32)
    batch = {"states": state, "actions": [0], "rewards": [2.0], "terminals": [True]}  # of the last one no next state
    value, logits = (agent.core.model.act({"": state})[0][name] for name in ("value", "logits"))
    advantage, hidden = 2.0 - float(value[0]), np.tanh(state @ before["hidden/kernel"] + before["hidden/bias"])
    gradient = np.exp(logits[0]) - [1.0, 0.0]  # of the log-probability, by the logits
    agent.update(batch)
    output, weights = before["action-adapter/output/kernel"], agent.get_policy_weights()
    np.testing.assert_allclose(
        weights["action-adapter/output/kernel"], output - 0.5 * advantage * np.outer(hidden, gradient), rtol=1e-4
    )
    of_policy = output @ gradient * advantage
    of_value = -0.5 * advantage * np.ones(3) * np.array([1.0])  # V(s) = sum of the three at first, see valued
    moved = before["hidden/bias"] - 0.5 * (of_policy + of_value) * (1 - hidden[0] ** 2)
    np.testing.assert_allclose(weights["hidden/bias"], moved, rtol=1e-4, atol=1e-6)


def test_values_have_an_optimizer_of_their_own() -> None:
    agent = actor_critic(value_function_optimizer_spec={"type": "sgd", "learning_rate": 0.0, "momentum": 0.5})
    batch = {"states": [[0.5], [1.0]], "actions": [0, 1], "rewards": [2.0, 1.0], "terminals": [False, True]}
    before, value = agent.get_policy_weights(), agent.core.model.act({"": np.ones((1, 1), np.float32)})[0]["value"]
    agent.update(batch)
    assert not equal(before, agent.get_policy_weights())
    assert agent.core.model.act({"": np.ones((1, 1), np.float32)})[0]["value"] == value


def test_batches_of_the_callers_are_learnt_from_like_records() -> None:
    agent, other = actor_critic(), actor_critic()
    batch: dict[str, Any] = {
        "states": [[4.0], [6.0], [1.0], [2.0]],
        "actions": [1, 1, 1, 1],
        "rewards": [1.0, 2.5, 10.0, 20.0],
        "terminals": [False, False, False, True],
        "next_states": [[6.0], [8.0], [2.0], [50.0]],
    }
    order = [2, 3, 0, 1]
    loss = agent.update(batch)  # from 8 it does not go on with 1
    np.testing.assert_allclose(loss[3], np.square([ADVANTAGES[k] for k in order]), rtol=1e-6)
    observe_two(other)
    assert float(other.update()) == pytest.approx(float(loss), rel=1e-6)
    assert (len(agent.memory), agent.updates) == (0, 1)
    weighted = actor_critic().update({**batch, "importance_weights": [1.0, 1.0, 0.0, 3.0]})
    np.testing.assert_allclose(weighted[1], loss[1] * np.array([1, 1, 0, 3]), rtol=1e-6)
    np.testing.assert_allclose(weighted[3], loss[3] * np.array([1, 1, 0, 3]), rtol=1e-6)
    one = {name: part[:1] for name, part in batch.items()}
    assert agent.update(one)[1].shape == (1,)


@pytest.mark.parametrize(
    ("state", "reward", "error", "value_error"),
    [
        # the value was 0 and is 1: within 0.5 of what it was, 0.5 is nearest
        (1.0, 2.0, -1.2 * 2.0, 1.5**2),
        (1.0, -2.0, 1.8 * 2.0, 3.0**2),
        (1.5, 2.0, -(2.0 - 1.0), 1.0**2),  # it has not acted in this state: the present policy and value count
    ],
)
def test_ppo_clips_the_ratio_to_the_policy_that_acted(
    state: float, reward: float, error: float, value_error: float
) -> None:
    agent = ppo(value_function_clipping=0.5)
    action = int(agent.get_action([1.0]))
    preferring(agent, 0.9 if action == 1 else 0.1)  # 1.8 times as likely as when it was taken
    valued(agent, 0.0, 1.0)
    agent.observe([state], action, [], reward, [1.0], True)
    loss, per_item, value_loss, value_per_item = agent.update()
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    np.testing.assert_allclose(per_item, [error - 0.25 * entropy] * 2, rtol=1e-5)
    np.testing.assert_allclose(value_per_item, [value_error] * 2, rtol=1e-5)
    assert loss == pytest.approx(error - 0.25 * entropy)
    assert value_loss == pytest.approx(value_per_item[0])
    assert len(agent.memory) == 1  # it is kept


def test_ppo_takes_steps_on_random_parts_of_the_newest_records() -> None:
    spec = {"batch_size": 4, "num_iterations": 3, "sample_size": 64}
    agent = PPOAgent(**{**LINEAR, "update_spec": spec, "standardize_advantages": True})
    valued(agent, 0.0, 0.0)
    for reward in (1.0, 2.0, 3.0, 5.0, 6.0, 50.0):
        agent.observe([0.0], 1, [], reward, [0.0], True)
    agent.update()
    assert len(agent.memory) == 6
    weights = agent.get_policy_weights()
    assert (weights["action-adapter/output/kernel"] == 0).all()  # of states 0
    assert weights["action-adapter/output/bias"][1] != 0
    value_errors = agent.update()[3]
    assert value_errors.shape == (64,)
    assert len(set(value_errors.tolist())) == 4


@pytest.mark.usefixtures("unconverted")
def test_floats_are_clipped_for_the_environment_and_learnt_as_drawn(tmp_path: Path) -> None:
    agent, other = (
        ppo(action_space=FloatBox(-0.1, 0.1, shape=(2,)), update_spec={**PPO["update_spec"], "batch_size": 4})
        for _ in range(2)
    )
    assert (agent.get_action([1.0], use_exploration=False) == 0).all()
    for _ in range(4):
        action = agent.get_action([1.0])
        agent.get_action([5.0], use_exploration=False)  # is not what is observed
        agent.observe([1.0], action, [], 1.0, [1.0], True)
        assert action.dtype == np.float32
        assert (np.abs(action) <= 0.1 + 1e-9).all()
    records = held(agent.memory)
    draws = records["action"][""]
    assert np.abs(draws).max() > 0.5
    expected = (-0.5 * draws.astype(np.float64) ** 2 - 0.5 * math.log(2 * math.pi)).sum(-1)
    np.testing.assert_allclose(records["log_prob"], expected, rtol=1e-6)
    entropy = math.log(2 * math.pi * math.e)  # of two components
    assert agent.update()[1] == pytest.approx([-1.0 - 0.25 * entropy] * 2, rel=1e-5)
    actions = agent.get_action(np.ones((3, 1)))
    assert actions.shape == (3, 2)
    other.load_model(agent.store_model(tmp_path))
    for one in (agent, other):
        one.observe([1.0], actions[2], [], 1.0, [1.0], True, env_id="env_2")
    assert equal(held(agent.memory)["action"], held(other.memory)["action"])
    assert np.abs(held(other.memory)["action"][""][-1]).max() > 0.1


@pytest.mark.usefixtures("unconverted")
def test_epsilon_and_noise_change_what_is_drawn() -> None:
    random = {"epsilon_spec": {"decay_spec": {"type": "constant_decay", "constant_value": 1.0}}}
    agent = ppo(exploration_spec=random, action_space=IntBox(3, 5))
    preferring(agent, 1 - 1e-6)
    actions, explored = agent.get_action(np.zeros((200, 1)), extra_returns="used_exploration")
    assert explored.all()
    assert 60 < (actions == 3).sum() < 140
    assert set(actions.tolist()) == {3, 4}
    assert agent.get_action([0.0], use_exploration=False) == 4


def test_an_exported_policy_takes_the_best_actions_in_their_spaces(tmp_path: Path) -> None:
    space = {"gear": IntBox(2, 5, shape=(2,)), "lift": FloatBox(-0.5, 0.5)}
    agent = ActorCriticAgent(**{**LINEAR, "action_space": space, "action_adapter_spec": None})
    states = np.linspace(-3, 3, 20, dtype=np.float32)[:, None]
    actions = agent.get_action(states, use_exploration=False)
    assert len(set(actions["gear"].ravel().tolist())) > 1
    assert {-0.5, 0.5} < set(actions["lift"].tolist())
    exported = Policy.load(agent.export_graph(tmp_path / "policy")).act(states)
    assert exported["gear"].tolist() == actions["gear"].tolist()
    np.testing.assert_allclose(exported["lift"], actions["lift"], rtol=1e-6)


def test_bytes_are_actions_with_categories(tmp_path: Path) -> None:
    agent = ppo(action_space=IntBox(2, 5, dtype="uint8"))
    actions = agent.get_action(np.zeros((200, 1)))
    assert (actions.dtype, set(actions.tolist())) == (np.uint8, {2, 3, 4})
    agent.observe([0.0], actions[0], [], 1.0, [0.0], True)
    assert held(agent.memory)["log_prob"].tolist() == pytest.approx([math.log(1 / 3)])
    assert Policy.load(agent.export_graph(tmp_path / "policy")).act([0.0]) == 2


def played(agent: Agent, steps: int) -> list[float]:
    """Two environments, updates every 8 timesteps; all actions and losses."""
    found: list[float] = []
    states = np.array([[0.5], [-0.5]])
    for step in range(steps):
        actions = agent.get_action(states)
        for k in range(2):
            agent.observe(states[k], actions[k], [], float(actions[k]), states[1 - k], step % 5 == 4, env_id=f"env_{k}")
        found += actions.tolist()
        if step % 8 == 7:
            found += agent.update()[1].tolist()
    return found


def test_a_loaded_agent_goes_on_bit_equal(tmp_path: Path) -> None:
    spec = {"batch_size": 4, "num_iterations": 3, "sample_size": 64}
    agent, other = (PPOAgent(**{**LINEAR, "update_spec": spec, "standardize_advantages": True}) for _ in range(2))
    played(agent, 11)
    action = agent.get_action([[0.25], [0.75]])
    played(other, 3)
    other.load_model(agent.store_model(tmp_path))
    assert len(other.states_buffer["env_0"]) == 1
    assert len(other.memory) == len(agent.memory) == 20
    for one in (agent, other):
        one.observe([0.25], action[0], [], 1.0, [0.75], env_id="env_0")
    assert played(agent, 17) == played(other, 17)
    first, second = agent.core.state_dict(), other.core.state_dict()
    assert equal(first["model"]["weights"], second["model"]["weights"])
    assert equal(held(agent.memory)["action"], held(other.memory)["action"])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"type": "sgd", "learning_rate": 0.1, "momentum": 0.5}, "has_momentum_of_value_function_optimizer is False"),
        ({"type": "adam", "learning_rate": 0.1}, "value_function_optimizer is 'sgd'; here it is 'adam'"),
    ],
)
def test_a_checkpoint_needs_optimizers_with_the_same_variables(tmp_path: Path, spec: Any, words: str) -> None:
    plain = {"value_function_optimizer_spec": {"type": "sgd", "learning_rate": 0.2}}
    path = PPOAgent(**{**LINEAR, **plain}).store_model(tmp_path)
    PPOAgent(**{**LINEAR, "value_function_optimizer_spec": {"type": "sgd", "learning_rate": 0.1}}).load_model(path)
    other = PPOAgent(**{**LINEAR, "value_function_optimizer_spec": spec})
    assert words in str(refused(other.load_model, path))


@pytest.mark.parametrize(
    ("more", "argument"),
    [
        ({"memory_spec": "replay"}, "PPOAgent: memory_spec"),
        ({"value_function_spec": [{"type": "dnse", "units": 3}]}, "PPOAgent: value_function_spec[0]['type']"),
        ({"observe_spec": {"n_step": 2}}, "PPOAgent: observe_spec['n_step']"),
        ({"action_adapter_spec": "baseline-action-adapter"}, "PPOAgent: action_adapter_spec['type']"),
    ],
)
def test_wrong_arguments_are_named(more: dict[str, Any], argument: str) -> None:
    assert refused(PPOAgent, **{**PPO, **more, "auto_build": False}).argument == argument
