"""DQNAgent, ApexAgent and RandomAgent: what they do, store and learn, by their numbers."""

import copy
import importlib
import inspect
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.rlgraph import RLGraphError, RLGraphWarning, get_backend
from axonrl.compat.rlgraph.agents import Agent, ApexAgent, DQNAgent, IMPALAAgent, RandomAgent
from axonrl.compat.rlgraph.spaces import BoolBox, Dict, FloatBox, IntBox
from axonrl.runtimes import Policy

from .agents import DQN, equal, make_dqn, records, refused

pytestmark = pytest.mark.usefixtures("traced_once")

STATE = np.array([0.3, -0.7])
HALVED: dict[str, Any] = {
    "preprocessing_spec": [{"type": "divide", "divisor": 2}],
    "observe_spec": {"buffer_size": 3},
    "store_last_memory_batch": True,
}
"""States are halved, and three records at a time are stored."""


def epsilon(**decay: Any) -> dict[str, Any]:
    return {"exploration_spec": {"epsilon_spec": {"decay_spec": decay}}}


ALWAYS: dict[str, Any] = {
    **epsilon(type="constant_decay", constant_value=1.0),
    "memory_spec": {"type": "prioritized_replay", "capacity": 30},
}
"""All actions are random."""


def bellman(agent: DQNAgent, batch: dict[str, Any], target: dict[str, Any], *, double: bool) -> np.ndarray[Any, Any]:
    """TD errors by hand, from weights: tanh, then linear."""

    def values(weights: dict[str, Any], states: Any) -> Any:
        hidden = np.tanh(np.asarray(states, np.float32) @ weights["dense-0/kernel"] + weights["dense-0/bias"])
        return hidden @ weights["action-adapter/output/kernel"] + weights["action-adapter/output/bias"]

    policy, rows = agent.get_weights(), np.arange(len(batch["rewards"]))
    after = values(target, batch["next_states"])
    best = (values(policy, batch["next_states"]) if double else after).argmax(-1)
    bootstrap = np.where(batch["terminals"], 0.0, 0.5 * after[rows, best])
    td: np.ndarray[Any, Any] = batch["rewards"] + bootstrap - values(policy, batch["states"])[rows, batch["actions"]]
    return td


CLASSES = [
    *[("agents." + module, name) for module, name in [("agent", "Agent"), ("dqn_agent", "DQNAgent")]],
    *[("agents." + module, name) for module, name in [("apex_agent", "ApexAgent"), ("ppo_agent", "PPOAgent")]],
    *[("agents.actor_critic_agent", "ActorCriticAgent"), ("agents.random_agent", "RandomAgent")],
    *[("agents.impala_agents", "IMPALAAgent"), ("agents.impala_agents", "SingleIMPALAAgent")],
    *[("environments.environment", "Environment"), ("environments.grid_world", "GridWorld")],
    *[("environments.openai_gym", "OpenAIGymEnv"), ("environments.random_env", "RandomEnv")],
    *[("environments.vector_env", "VectorEnv"), ("environments.sequential_vector_env", "SequentialVectorEnv")],
    *[("execution.worker", "Worker"), ("execution.single_threaded_worker", "SingleThreadedWorker")],
    *[("execution.ray.apex", "ApexExecutor"), ("execution.ray.apex.apex_executor", "ApexExecutor")],
    *[("spaces.space", "Space"), ("spaces.box_space", "BoxSpace"), ("spaces.float_box", "FloatBox")],
    *[("spaces.int_box", "IntBox"), ("spaces.bool_box", "BoolBox"), ("spaces.containers", "Dict")],
    *[("spaces.containers", "Tuple"), ("utils.rlgraph_errors", "RLGraphError"), ("utils", "RLGraphError")],
    ("utils.config_util", "read_config_file"),
]


def test_importing_and_constructing_load_nothing_heavy() -> None:
    code = (
        "import sys, axonrl.compat.rlgraph as rl\n"
        "from axonrl.compat.rlgraph import environments\n"
        "rl.GridWorld('2x2').step(2); rl.FloatBox; assert 'gymnasium' not in sys.modules\n"
        "from axonrl.compat.rlgraph import agents, spaces\n"
        "assert rl.DQNAgent is agents.DQNAgent and rl.GridWorld is environments.GridWorld\n"
        "spec = dict(dueling_q=False, network_spec=[dict(type='dense', units=4)])\n"
        "spaces = dict(state_space=rl.FloatBox(shape=(2,)), action_space=rl.IntBox(2))\n"
        "agent = rl.DQNAgent(**spaces, **spec, auto_build=False)\n"
        "assert not agent.graph_built\n"
        "from axonrl.compat.rlgraph.execution.ray import ApexExecutor\n"
        "replay = dict(memory_spec=dict(capacity=1000), min_sample_memory_size=100)\n"
        "ray = dict(executor_spec={}, worker_spec={}, apex_replay_spec=replay)\n"
        "execution = dict(execution_spec=dict(ray_spec=ray), optimizer_spec=dict(type='adam', learning_rate=0.01))\n"
        "ApexExecutor(dict(type='grid_world', world='2x2'), dict(type='apex', **spec, **execution))\n"
        "assert not {'tensorflow', 'keras', 'ray'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_ways_to_create(tmp_path: Path, monkeypatch: Any) -> None:
    spec = {"type": "DQN-Agent", **DQN, "auto_build": False, "double_q": False}
    before = copy.deepcopy(spec)
    path, yaml = tmp_path / "dqn.json", tmp_path / "dqn.yaml"
    for file in (path, yaml):
        file.write_text(json.dumps(spec), "utf-8")  # JSON is YAML
    rest = {key: value for key, value in spec.items() if key != "type"}
    monkeypatch.chdir(tmp_path)
    Path("dqn").write_text("not a specification", "utf-8")
    agents = [
        Agent.from_spec(spec, discount=0.25),
        Agent.from_spec(str(path), discount=0.25),
        Agent.from_file(str(yaml), discount=0.25),
        Agent.from_spec("dqn", **{**rest, "discount": 0.25}),
        Agent.from_spec(DQNAgent, **{**rest, "discount": 0.25}),
        DQNAgent.from_spec(rest, discount=0.25),
        DQNAgent(str(path), discount=0.25),
        Agent.from_spec({**spec, "type": "axonrl.compat.rlgraph.agents.DQNAgent"}, discount=0.25),
    ]
    assert spec == before
    for agent in agents:
        assert type(agent) is DQNAgent
        assert (agent.discount, agent.form["double_q"], agent.name) == (0.25, False, "dqn-agent")
        assert agent.form == agents[0].form
    assert Agent.from_spec(agents[0]) is agents[0]
    yaml.write_text("!!python/object/apply:os.getcwd []")
    assert "not valid YAML" in str(refused(Agent.from_file, str(yaml)))
    execution = {"seed": 3, "mode": "single", "disable_monitoring": True, "profiler_frequency": 3}
    with pytest.warns(RLGraphWarning) as warned:
        steps = make_dqn(n_step=4, observe_spec={"buffer_size": 12}, auto_build=False, execution_spec=execution)
    assert len(warned) == 1
    assert all(name in str(warned[0].message) for name in ("mode", "disable_monitoring", "profiler_frequency"))
    assert steps.observe_spec["n_step"] == 4
    assert make_dqn(update_spec={"update_interval": 3}, auto_build=False).update_spec["sync_interval"] == 129


BOTH = {"type": "Adam-Optimizer", "learning_rate": 0.1, "beta1": 0.5, "beta_1": 0.5}
WITHOUT_NEXT = {"type": "replay", "next_states": False}


@pytest.mark.parametrize(
    ("make", "argument", "words"),
    [
        (lambda: RandomAgent.from_spec({**DQN, "type": "dqn"}), "RandomAgent.from_spec: type", "DQNAgent"),
        (lambda: Agent.from_spec("dqfd"), "Agent.from_spec: type", "import_observations"),
        (lambda: Agent(**DQN), "Agent", "DQNAgent"),
        (lambda: make_dqn(update_spec={"sync_intervall": 4}), "sync_intervall", "sync_interval"),
        (
            lambda: make_dqn(update_spec={"batch": 4}, optimizer_spec={"type": "adam", "lr": 1, "learning_rate": 1}),
            "lr",
            "'batch'",
        ),
        (lambda: make_dqn(dueling_q=True), "action_adapter_spec", "units_state_value_stream"),
        (lambda: make_dqn(memory_spec="ring_buffer"), "memory_spec", "prioritized_replay"),
        (lambda: make_dqn(optimizer_spec="json.loads"), "optimizer_spec", "must be one of"),
        (lambda: make_dqn(optimizer_spec=BOTH), "optimizer_spec['beta1']", "two names"),
        (lambda: make_dqn(execution_spec={"mode": "distributed"}), "execution_spec['mode']", "ApexExecutor"),
        (lambda: make_dqn(network_spec=[{"type": "lstm", "units": 4}]), "network_spec: layer 'lstm-0'", "IMPALAAgent"),
        (lambda: make_dqn(network_spec=[{"type": "embedding"}]), "network_spec[0]['type']", "one-hot"),
        (lambda: make_dqn(memory_spec={"type": "prioritized", "alpha": 2}), "memory_spec['alpha']", "of at most 1"),
        (lambda: make_dqn(memory_spec=WITHOUT_NEXT), "memory_spec['next_states']", "omit it"),
        (lambda: make_dqn(n_step=2, observe_spec={"n_step": 3}), "n_step", "3"),
        (
            lambda: make_dqn(update_spec={"sync_interval": 6, "update_interval": 4}),
            "update_spec['sync_interval']",
            "4; got 6",
        ),
        (lambda: make_dqn(observe_spec={"n_step": 4, "buffer_size": 11}), "observe_spec['buffer_size']", "12; got 11"),
    ],
)
def test_what_is_wrong_is_named(make: Any, argument: str, words: str) -> None:
    error = refused(make)
    assert error.argument.removeprefix("DQNAgent: ") == argument
    assert words in str(error)


def test_before_building_and_after_the_end_agents_do_nothing() -> None:
    agent = make_dqn(auto_build=False)
    assert agent.graph_built is False
    for call in (lambda: agent.get_action(STATE), agent.update, agent.get_weights, agent.reset):
        assert "build()" in str(refused(call))
    agent.build()
    assert bool(agent.graph_built)
    assert agent.get_action(STATE) in (0, 1, 2)
    assert "built already" in str(refused(agent.build))
    agent.terminate()
    agent.terminate()
    for call in (lambda: agent.get_action(STATE), agent.update, agent.get_weights, agent.reset):
        assert "terminated" in str(refused(call))


def test_one_state_or_a_batch() -> None:
    agent = make_dqn()
    action = agent.get_action(STATE)
    assert isinstance(action, np.int32)
    assert (action.shape, agent.timesteps) == ((), 1)
    actions = agent.get_action(np.stack([STATE] * 3), use_exploration=False)
    assert (actions.shape, actions.dtype, agent.timesteps) == ((3,), np.int32, 4)
    for wrong in (np.zeros(3), np.zeros((2, 3)), [np.nan, 0.0], "state"):
        assert refused(agent.get_action, wrong).argument == "DQNAgent.get_action: states"
    error = refused(agent.get_action, STATE, extra_returns="used_explorations")
    assert error.argument == "DQNAgent.get_action: extra_returns"
    refused(agent.get_action, STATE, internals=[np.zeros(3)])
    assert agent.timesteps == 4


def test_equal_seeds_are_equal_agents_and_greedy_acts_draw_nothing() -> None:
    first, second = make_dqn(**ALWAYS), make_dqn(**ALWAYS)
    explored = []
    for agent in (first, second):
        found = []
        for _ in range(40):
            if agent is second:
                assert len({int(agent.get_action(STATE, use_exploration=False)) for _ in range(5)}) == 1
            found.append(int(agent.get_action(STATE)))
        explored.append(found)
        agent.import_observations(records(20))
    assert explored[0] == explored[1]
    assert len(set(explored[0])) == 3
    assert [first.update() for _ in range(3)] == [second.update() for _ in range(3)]
    assert equal(first.get_weights(), second.get_weights())
    drawn = [make_dqn(execution_spec={}, auto_build=False).seed for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_epsilon_follows_the_timesteps() -> None:
    agent = make_dqn(**epsilon(**{"from": 1.0, "to": 0.0, "num_timesteps": 50}))
    used = [agent.get_action(STATE, extra_returns="used_exploration")[1] for _ in range(60)]
    assert any(used)
    assert not any(used[49:])  # the fiftieth call is at timestep 50
    actions, explored = make_dqn(**ALWAYS).get_action(np.zeros((3000, 2)), extra_returns=["used_exploration"])
    assert explored.all()
    np.testing.assert_allclose(np.bincount(actions, minlength=3), 1000, atol=120)


def test_extras_come_in_their_order_and_states_are_preprocessed_once() -> None:
    agent = make_dqn(**HALVED)
    action, states = agent.get_action(STATE, extra_returns="preprocessed_states")
    np.testing.assert_allclose(states, STATE / 2, rtol=1e-6)
    names = {"used_exploration", "internal_states", "preprocessed_states"}
    again, states, internals, used = agent.get_action(STATE, extra_returns=names)
    assert (again, internals, used) == (action, (), False)
    np.testing.assert_allclose(states, STATE / 2, rtol=1e-6)
    np.testing.assert_array_equal(agent.preprocess_states([2.0, 4.0]), [1.0, 2.0])
    x = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    found = agent.get_action(x, use_exploration=False)
    assert len(set(found.tolist())) > 1
    np.testing.assert_array_equal(found, agent.get_action(x / 2, use_exploration=False, apply_preprocessing=False))


def test_buffers_by_environment() -> None:
    agent = make_dqn(**HALVED)

    def observe(name: str | None, *, terminal: bool = False) -> None:
        agent.observe(STATE, 1, [], 1.0, STATE, terminal, env_id=name)

    observe(None)
    observe(None)
    assert len(agent.memory) == 0
    for buffer in (agent.states_buffer, agent.actions_buffer, agent.rewards_buffer, agent.terminals_buffer):
        assert {name: len(rows) for name, rows in buffer.items()} == {"env_0": 2}
    assert agent.actions_buffer["env_0"] == [1, 1]
    observe(None)
    assert (len(agent.memory), agent.rewards_buffer) == (3, {})
    observe("a")
    observe("b")
    observe("b")
    observe("a", terminal=True)
    assert len(agent.memory) == 5
    observe("a")
    agent.reset_env_buffers("a")
    agent.reset_env_buffers("nobody")
    assert {name: len(rows) for name, rows in agent.next_states_buffer.items()} == {"b": 2}
    agent.flush_env_buffers()
    assert len(agent.memory) == 7


@pytest.mark.parametrize(
    ("name", "value"),
    [("actions", 3), ("rewards", np.nan), ("next_states", [1.0]), ("preprocessed_states", [np.inf, 0]), ("env_id", 3)],
)
def test_observe_refuses_without_storing(name: str, value: Any) -> None:
    agent = make_dqn(**HALVED)
    good = {"preprocessed_states": STATE, "actions": 1, "internals": [], "rewards": 1.0, "next_states": STATE}
    assert refused(agent.observe, **{**good, name: value}).argument == f"DQNAgent.observe: {name}"
    assert (len(agent.memory), agent.rewards_buffer) == (0, {})


def test_a_batch_is_cut_at_its_terminals() -> None:
    agent = make_dqn(**HALVED)
    states, rewards = np.array([[k, 0] for k in range(4)]), [1.0, 2.0, 4.0, 8.0]
    agent.observe(states, [0] * 4, None, rewards, states, [False, True, False, False], "a")
    assert (len(agent.memory), agent.rewards_buffer) == (2, {"a": [4.0, 8.0]})
    agent.observe([3, 0], 1, None, 16.0, [3, 0], False, "a")
    kept = agent.memory.gather(np.arange(5))
    assert kept["reward"].tolist() == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert (kept["terminated"] > 0).tolist() == [False, True, False, False, False]
    assert (kept["observation"][""][:, 0].tolist(), kept["action"].tolist()) == ([0, 1, 2, 3, 3], [0, 0, 0, 0, 1])
    assert refused(agent.observe, states, [0] * 3, None, rewards, states).argument == "DQNAgent.observe: actions"
    agent.update()  # a full buffer is no end of the world
    assert agent.last_memory_batch is not None
    assert (agent.last_memory_batch["terminals"] == (agent.last_memory_batch["rewards"] == 2)).all()


@pytest.mark.usefixtures("unconverted")
def test_rewards_over_several_timesteps() -> None:
    agent = make_dqn(n_step=2, memory_spec={"type": "replay", "capacity": 4}, store_last_memory_batch=True)
    for step, reward in enumerate((1.0, 2.0, 4.0)):
        agent.observe([float(step), 0.0], 0, [], reward, [step + 1.0, 0.0], step == 2)
    agent.observe([5.0, 0.0], 0, [], 8.0, [6.0, 0.0])
    agent.flush_env_buffers("env_0")
    kept = agent.memory.gather(np.arange(4))
    assert kept["observation"][""][:, 0].tolist() == [0, 1, 2, 5]
    assert kept["reward"].tolist() == [1 + 0.5 * 2, 2 + 0.5 * 4, 4, 8]
    assert (kept["terminated"] > 0).tolist() == [False, True, True, False]
    assert kept["next_observation"][""][:, 0].tolist() == [2, 3, 3, 6]
    core: Any = agent.core
    for _ in range(5):
        agent.update()
        discount = dict(zip(core.last_batch["reward"].tolist(), core.last_batch["discount"].tolist(), strict=True))
        assert discount.items() <= {2: 0.25, 4: 0, 8: 0.5}.items()


@pytest.mark.usefixtures("unconverted")
def test_huber_losses_by_hand() -> None:
    agent = make_dqn(huber_loss=True)
    batch = {"states": [STATE] * 3, "actions": [1] * 3, "next_states": [STATE] * 3, "terminals": [True] * 3}
    value = float(agent.call_api_method("get_q_values", STATE)[1])
    rewards = value + np.array([-0.5, 0.0, 3.0])
    before = agent.get_weights()
    loss, each = agent.get_td_loss({**batch, "rewards": rewards})
    assert each == pytest.approx([0.125, 0.0, 2.5], abs=1e-5)
    _, tripled = agent.get_td_loss({**batch, "rewards": rewards, "importance_weights": [1.0, 1.0, 3.0]})
    np.testing.assert_allclose(tripled, each * [1, 1, 3], rtol=1e-6)
    assert loss == pytest.approx(each.mean())
    assert equal(before, agent.get_weights())
    assert agent.updates == 0


@pytest.mark.parametrize("double", [True, False])
def test_the_target_is_copied_before_every_second_update(double: bool) -> None:
    """By what records bootstrap from it: the value of its own best action, or of the policy's."""
    agent, batch, rng = make_dqn(double_q=double), records(32), np.random.default_rng(1)
    target = agent.get_weights()
    agent.set_policy_weights({name: rng.normal(size=array.shape).astype(np.float32) for name, array in target.items()})
    for number in range(1, 6):
        before = agent.get_weights()
        agent.update(batch)
        if number % 2 == 0:
            target = before
        _, each = agent.get_td_loss(batch)
        np.testing.assert_allclose(each, bellman(agent, batch, target, double=double) ** 2, rtol=1e-3, atol=1e-5)
    agent.call_api_method("sync_target_qnet")
    _, each = agent.get_td_loss(batch)
    wanted = bellman(agent, batch, agent.get_weights(), double=double) ** 2
    np.testing.assert_allclose(each, wanted, rtol=1e-3, atol=1e-5)


def test_imports_and_updates_that_cannot_be() -> None:
    agent = make_dqn()
    assert agent.import_observations([records(1), records(2, seed=1)]) == 3
    without = {key: value for key, value in records(3).items() if key != "next_states"}
    assert "next_states" in str(refused(agent.import_observations, without))
    refused(agent.import_observations, [records(3), {**records(3), "actions": [0, 1, 9]}])
    assert "prioritized_replay" in str(refused(agent.memory.update_records, [0], [1.0]))
    assert len(agent.memory) == 3
    before = agent.get_weights()
    calls: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
        (agent.update, ("4", "3")),
        (lambda: agent.update({"states": [STATE]}), ("actions", "rewards", "terminals", "next_states")),
        (lambda: agent.update({**records(2), "rewards": [1.0]}), ("rewards",)),
        (lambda: agent.update({**records(2), "importance_weights": [1.0, -1.0]}), ("importance_weights",)),
    ]
    for call, words in calls:
        error = refused(call)
        assert all(word in str(error) for word in words)
    assert equal(before, agent.get_weights())
    assert agent.updates == 0
    agent.import_observations(records(1))
    assert isinstance(agent.update(), float)
    loss, each = found = agent.update(records(3))  # filled up to 4
    assert float(found) == loss == pytest.approx(each.mean(), rel=1e-6)
    assert (each.shape, agent.updates) == ((3,), 2)


@pytest.mark.usefixtures("unconverted")
def test_decay_of_sgd() -> None:
    """The third update has a rate of 0.1 / (1 + 0.5 * 2): from the same weights it goes half as far as the first."""
    agent = make_dqn(optimizer_spec={"type": "sgd", "learning_rate": 0.1, "decay": 0.5})
    batch, start, steps = {**records(4), "terminals": [True] * 4}, agent.get_weights(), []
    for _ in range(3):
        agent.set_weights(start)
        agent.update(batch)
        after = agent.get_weights()
        steps.append({name: after[name] - array for name, array in start.items()})
    for name, first in steps[0].items():
        assert np.abs(first).max() > 1e-4
        np.testing.assert_allclose(steps[2][name], first / 2, rtol=1e-3, atol=1e-6)


def test_weights_fit_or_nothing_is_set() -> None:
    agent = make_dqn()
    own = agent.get_weights()
    name = "dense-0/kernel"
    wrongs = [
        {**own, name: np.zeros((3, 8), np.float32)},
        {**own, name: np.full((2, 8), np.nan, np.float32)},
        {key: value for key, value in own.items() if key != name},
    ]
    for wrong in wrongs:
        refused(agent.set_weights, wrong)
    assert equal(own, agent.get_weights())
    agent.get_weights()[name][:] = 7.0
    assert equal(own, agent.get_policy_weights())
    agent.set_weights({key: value + 1 for key, value in own.items()})
    assert agent.get_weights()[name][0, 0] == own[name][0, 0] + 1


@pytest.mark.usefixtures("unconverted")
def test_priorities() -> None:
    memory = {"type": "mem_prioritized_replay", "capacity": 8, "beta": 1.0}
    more = {"memory_spec": memory, "store_last_memory_batch": True, "store_last_q_table": True}
    agent = ApexAgent(**{**DQN, **more})
    assert agent.form["huber_loss"]
    assert agent.name == "apex-agent"
    agent.import_observations(records(8))
    agent.update()
    batch, table = agent.last_memory_batch, agent.last_q_table
    assert batch is not None
    assert table is not None
    assert table["q_values"].shape == (4, 3)
    np.testing.assert_array_equal(batch["importance_weights"], np.ones(4))
    agent.memory.update_records(np.arange(8), np.where(np.arange(8) == 5, 1e6, 1e-3))
    agent.update()
    assert agent.last_memory_batch is not None
    assert set(agent.last_memory_batch["indices"].tolist()) == {5}
    assert agent.num_updates == 2
    refused(agent.memory.update_records, [8], [1.0])
    own = records(4, seed=1)
    agent.update(own)
    assert agent.last_q_table is not None
    np.testing.assert_array_equal(agent.last_q_table["states"], own["states"].astype(np.float32))


@pytest.mark.usefixtures("unconverted")
def test_several_actions_and_dueling_streams() -> None:
    streams = {"units_state_value_stream": 4, "units_advantage_stream": 5}
    agent = make_dqn(action_space=IntBox(0, 3, (2,)), dueling_q=True, action_adapter_spec=streams)
    weights, states = agent.get_weights(), np.stack([STATE, -STATE]).astype(np.float32)
    hidden = np.tanh(states @ weights["dense-0/kernel"])

    def stream(first: str, second: str) -> Any:
        return np.maximum(hidden @ weights[f"action-adapter/{first}/kernel"], 0) @ weights[f"{second}/kernel"]

    assert weights["action-adapter/state-value-stream/kernel"].shape == (8, 4)
    assert weights["action-adapter/advantage-stream/kernel"].shape == (8, 5)
    values = agent.call_api_method("get_q_values", states)
    assert values.shape == (2, 2, 3)
    advantage = stream("advantage-stream", "action-adapter/output").reshape(2, 2, 3)
    wanted = stream("state-value-stream", "action-adapter/state-value")[..., None] + advantage
    np.testing.assert_allclose(values, wanted - advantage.mean(-1, keepdims=True), rtol=1e-4, atol=1e-6)
    assert agent.get_action(STATE).shape == (2,)
    batch = {**records(2), "states": states, "actions": [[0, 1], [2, 2]], "terminals": [True, True]}
    chosen = values[[[0], [1]], [[0, 1]], batch["actions"]]
    td = (batch["rewards"][:, None] - chosen).mean(-1)
    np.testing.assert_allclose(agent.get_td_loss(batch)[1], td**2, rtol=1e-4)


RAGGED = [[1.0], [2.0, 3.0]]


def _update_records(agent: DQNAgent, indices: Any, priorities: Any) -> None:
    agent.memory.update_records(indices, priorities)


def _act_at(agent: DQNAgent, time_step: Any) -> None:
    agent.call_api_method("get_preprocessed_state_and_action", [STATE, time_step])


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda agent: agent.get_action(STATE, env_ids=0), "DQNAgent.get_action: env_ids"),
        (lambda agent: agent.get_action(STATE, env_ids=[["a"]]), "DQNAgent.get_action: env_id"),
        (lambda agent: _act_at(agent, "abc"), "DQNAgent.call_api_method: time_step"),
        (lambda agent: _act_at(agent, [1, 2]), "DQNAgent.call_api_method: time_step"),
        (
            lambda agent: agent.set_weights({**agent.get_weights(), "dense-0/bias": RAGGED}),
            "DQNAgent.set_weights: weights['dense-0/bias']",
        ),
        (lambda agent: _update_records(agent, RAGGED, [1.0]), "memory.update_records: indices"),
        (lambda agent: _update_records(agent, [0], RAGGED), "memory.update_records: priorities"),
        (lambda agent: _update_records(agent, [0], [np.inf]), "memory.update_records: priorities"),
        (lambda _: FloatBox(shape=(2,)).force_batch(RAGGED), "FloatBox.force_batch: samples"),
        (
            lambda _: make_dqn(network_spec=[{"type": "dense", "units": 2, "weights_spec": RAGGED}], auto_build=False),
            "DQNAgent: network_spec[0]['weights_spec']",
        ),
    ],
)
def test_values_of_the_wrong_kind_are_named(call: Callable[[DQNAgent], Any], argument: str) -> None:
    agent = make_dqn(**ALWAYS)
    agent.import_observations(records(4))
    assert refused(call, agent).argument == argument


def test_store_and_load(tmp_path: Path) -> None:
    agent, other = make_dqn(**ALWAYS), make_dqn(**ALWAYS)
    other.get_action(np.stack([STATE] * 7))  # has drawn something else
    agent.import_observations(records(40))
    for _ in range(3):
        agent.get_action(STATE)
        agent.update()
    agent.observe(STATE, 1, [], 2.0, STATE, env_id="a")
    folder = agent.store_model(tmp_path)
    assert folder == str(tmp_path / "model.ckpt-3")
    other.load_model(tmp_path)
    assert equal(agent.get_weights(), other.get_weights())
    assert (other.timesteps, other.updates, len(other.memory)) == (3, 3, 30)
    assert other.rewards_buffer == {"a": [2.0]}
    for _ in range(5):
        assert agent.get_action(STATE) == other.get_action(STATE)
        assert agent.update() == other.update()
    assert equal(agent.get_weights(), other.get_weights())
    empty = tmp_path / "empty"
    empty.mkdir()
    different = make_dqn()
    before = different.get_weights()
    for path, words in ((empty, "no checkpoint"), (tmp_path, "exploration_spec|memory_spec")):
        with pytest.raises(RLGraphError, match=words):
            different.load_model(path)
    assert equal(before, different.get_weights())


def test_checkpoints_that_are_kept(tmp_path: Path) -> None:
    saver = {"directory": str(tmp_path), "max_checkpoints": 2, "checkpoint_basename": "m"}
    spaces: dict[str, Any] = {"state_space": FloatBox(shape=(2,)), "action_space": IntBox(3)}
    agent = RandomAgent(**spaces, saver_spec=saver)
    for _ in range(3):
        agent.get_action(STATE)
        agent.store_model()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m-2", "m-3"]
    assert agent.store_model(add_timestep=False) == str(tmp_path / "m")
    assert "saver_spec" in str(refused(RandomAgent(**spaces).store_model))


def test_api_methods_by_name() -> None:
    agent = make_dqn(**HALVED)
    call = agent.call_api_method
    seen, action = call("get_preprocessed_state_and_action", [STATE, 5, False])
    np.testing.assert_allclose(seen, STATE / 2, rtol=1e-6)
    assert call("action_from_preprocessed_state", [seen, 5, False])[1] == action
    assert call("action_from_preprocessed_state", [seen, 5, False], return_ops=1) == action
    by_space = {"preprocessed_states": seen, "time_step": 5, "use_exploration": False}
    assert call("action_from_preprocessed_state", by_space)[1] == action
    assert "'time_steps' (did you mean" in str(
        refused(call, "action_from_preprocessed_state", {"states": seen, "time_steps": 5})
    )
    assert agent.timesteps == 0
    refused(call, "reset_preprocessor", "env_0")  # it resets all environments
    batch = records(4)
    given = [batch[name] for name in ("states", "actions", "rewards", "next_states", "terminals")]
    assert call("insert_records", given) == 4
    given = [batch[name] for name in ("states", "actions", "rewards", "terminals", "next_states")]
    wanted = float(make_dqn().update(batch))
    assert call("update_from_external_batch", [*given, np.ones(4)]) == pytest.approx(wanted)
    loss, each = call("update_from_memory", return_ops=[0, 1])
    assert (len(each), loss) == (4, pytest.approx(each.mean()))
    assert agent.updates == 2
    assert "sync_target_qnet" in str(refused(call, "sync_target_net"))
    assert "docs/model_fn.md" in str(refused(agent.define_graph_api))
    assert "define_api_methods_actor" in str(refused(IMPALAAgent.define_api_methods_actor, agent))


def test_a_call_by_name_explores_as_of_its_time_step() -> None:
    agent = make_dqn(**epsilon(**{"from": 1.0, "to": 0.0, "num_timesteps": 1}))
    states = np.ones((64, 2), np.float32)
    best = agent.get_action(states[0], use_exploration=False)
    for op in ("action_from_preprocessed_state", "get_preprocessed_state_and_action"):
        assert set(agent.call_api_method(op, [states, 0])[1].tolist()) == {0, 1, 2}
        assert set(agent.call_api_method(op, [states, 1])[1].tolist()) == {best}
    assert agent.timesteps == 1


def test_threads_share_an_agent() -> None:
    """Each of eight acts in an environment of its own; what an agent does for one, it does alone."""
    threads, steps = 8, 30
    agent = make_dqn(observe_spec={"buffer_size": 4})
    core: Any = agent.core
    inside, most = [0], [0]

    def alone(method: Any) -> Any:
        def called(*args: Any) -> Any:
            inside[0] += 1
            most.append(inside[0])
            time.sleep(1e-4)  # others may come now
            try:
                return method(*args)
            finally:
                inside[0] -= 1

        return called

    core.act, core.store, core.update = alone(core.act), alone(core.store), alone(core.update)

    def run(index: int) -> None:
        state, name = np.array([index, -index], np.float32), f"env_{index}"
        best = agent.get_action(state, use_exploration=False, env_ids=name)
        for step in range(steps):
            action = agent.get_action(state, env_ids=name)
            assert agent.updates or action == best
            agent.observe(state, action, [], 1.0, state, step % 10 == 9, env_id=name)
            if index == 0 and step > 19:
                agent.update()

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(run, index) for index in range(threads)]:
            future.result()
    assert max(most) == 1
    assert (agent.timesteps, agent.updates) == ((steps + 1) * threads, 10)
    assert (len(agent.memory), agent.memory.capacity) == (100, 100)


def test_specifications_of_2018() -> None:
    """What RLgraph 0.1.3 let its users leave out, and names that it gave to arguments."""
    network = {
        "scope": "net",
        "layers": [{"type": "dense", "units": 4, "activation": "lrelu", "activation_params": [0.1]}],
    }
    one_hot = {"type": "reshape", "flatten": True, "flatten_categories": 5}
    more = {"state_space": IntBox(4), "preprocessing_spec": [one_hot], "network_spec": network}
    with pytest.warns(RLGraphWarning, match="less than a batch of 4"):
        agent = make_dqn(**more, optimizer_spec={"learning_rate": 0.5}, memory_spec={"type": "replay", "capacity": 2})
    assert agent.form["optimizer_spec"]["type"] == "gradient_descent"
    weights = agent.get_weights()
    assert weights["dense-0/kernel"].shape == (5, 4)
    hidden = weights["dense-0/kernel"][1] + weights["dense-0/bias"]
    values = np.where(hidden > 0, hidden, 0.1 * hidden) @ weights["action-adapter/output/kernel"]
    np.testing.assert_allclose(agent.call_api_method("get_q_values", [np.eye(5)[1]]), values, rtol=1e-4, atol=1e-6)
    for k in range(2):
        assert not agent.can_update
        agent.observe(np.eye(5)[k], 0, [], 1.0, np.eye(5)[k], True)
    assert len(agent.update()[1]) == 4
    policy: dict[str, Any] = {"type": "dueling-policy", "units_state_value_stream": 3, "deterministic": True}
    policy["action_adapter_spec"] = {"pre_network_spec": [{"type": "dense", "units": 5}]}
    with pytest.warns(RLGraphWarning, match="deterministic"):
        later = make_dqn(dueling_q=True, policy_spec=policy, update_spec=False, auto_build=False)
    adapter = later.form["action_adapter_spec"]
    assert (adapter["units_state_value_stream"], adapter["units_advantage_stream"]) == (3, 5)
    assert not later.update_spec["do_updates"]


def _sums(states: IntBox, network: list[Any], rows: int) -> DQNAgent:
    """A DQNAgent whose values are the sums of its inputs times 0, 1, 2, ..., row by row."""
    adapter = {"weights_spec": np.arange(3.0 * rows).reshape(rows, 3)}
    return make_dqn(state_space=states, network_spec=network, action_adapter_spec=adapter)


FLATTEN: dict[str, Any] = {"type": "reshape", "flatten": True}


def test_integers_with_different_lower_bounds_are_numbers_for_a_network() -> None:
    agent = _sums(IntBox((0, 10), (5, 15)), [FLATTEN], 2)
    values = agent.call_api_method("get_q_values", [[[3, 10], [3, 14]]])
    assert values.tolist() == [[30.0, 43.0, 56.0], [42.0, 59.0, 76.0]]


def test_a_reshaped_integer_is_one_hot_from_its_lower_bound() -> None:
    agent = _sums(IntBox(2, 5, (2,)), [{"type": "reshape", "new_shape": [2, 1]}, FLATTEN], 6)
    values = agent.call_api_method("get_q_values", [[[2, 2], [4, 3]]])
    assert values.tolist() == [[0.0 + 9.0, 1.0 + 10.0, 2.0 + 11.0], [6.0 + 12.0, 7.0 + 13.0, 8.0 + 14.0]]


def test_classes_are_where_rlgraph_had_them() -> None:
    for module, name in CLASSES:
        found = getattr(importlib.import_module(f"axonrl.compat.rlgraph.{module}"), name)
        assert found.__name__ == name
    spec = {**DQN, "type": "rlgraph.agents.dqn_agent.DQNAgent", "auto_build": False}
    assert type(Agent.from_spec(spec)) is DQNAgent
    assert list(inspect.signature(DQNAgent).parameters)[:2] == ["double_q", "dueling_q"]
    assert get_backend() == "tf"


def test_an_exported_policy_acts_as_the_agent(tmp_path: Path, in_tensorflow: Any) -> None:
    clipped = [{"type": "divide", "divisor": 2}, {"type": "clip", "min": -1, "max": 1}]
    agent = make_dqn(action_space=IntBox(5, 8), preprocessing_spec=clipped, store_last_memory_batch=True)
    agent.import_observations({**records(20), "actions": np.arange(20) % 3 + 5})
    for _ in range(3):
        agent.update()
        assert agent.last_memory_batch is not None
        agent.update(agent.last_memory_batch)  # its actions are numbers of the space
    with pytest.warns(RLGraphWarning, match="meta"):
        folder = agent.export_graph(tmp_path / "policy.meta")
    assert folder == str(tmp_path / "policy")
    states = np.random.default_rng(0).normal(scale=3, size=(50, 2)).astype(np.float32)
    wanted = agent.get_action(states, use_exploration=False)
    assert len(set(wanted.tolist())) > 1
    policy = Policy.load(folder)
    assert policy.act(states).tolist() == wanted.tolist()
    assert [policy.act(one) for one in states[:5]] == wanted[:5].tolist()
    assert "something other than an export" in str(refused(agent.export_graph, tmp_path))
    with in_tensorflow():
        remembers = make_dqn(preprocessing_spec=["sequence", {"type": "reshape", "flatten": True}])
    assert "sequence" in str(refused(remembers.export_graph, tmp_path / "other"))


def test_an_exported_policy_takes_truth_values(tmp_path: Path) -> None:
    states = Dict(a=BoolBox(shape=(2,)), b=bool)
    network = [{"type": "concat"}, {"type": "dense", "units": 8}]
    agent = make_dqn(state_space=states, network_spec=network)
    batch = {"a": np.array([[0, 0], [0, 1], [1, 0], [1, 1]], bool), "b": np.array([0, 1, 0, 1], bool)}
    wanted = agent.get_action(batch, use_exploration=False).tolist()
    policy = Policy.load(agent.export_graph(tmp_path / "policy"))
    assert policy.act(batch).tolist() == wanted
    assert policy.act({"a": [True, False], "b": True}) == agent.get_action(
        {"a": [True, False], "b": True}, use_exploration=False
    )
