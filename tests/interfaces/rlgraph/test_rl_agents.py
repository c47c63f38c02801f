"""DQNAgent, ApexAgent and RandomAgent: the behaviours of the fact sheet, by their numbers."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.interfaces.rlgraph import RLGraphError, RLGraphWarning
from axonrl.interfaces.rlgraph.agents import Agent, ApexAgent, DQNAgent, RandomAgent
from axonrl.interfaces.rlgraph.spaces import FloatBox, IntBox

from .agents import DQN, equal, make_dqn, records

pytestmark = pytest.mark.usefixtures("traced_once")

STATE = np.array([0.3, -0.7])


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


# -- creation ---------------------------------------------------------------------------------------------------------


def test_01_importing_and_constructing_load_neither_tensorflow_nor_ray() -> None:
    code = (
        "import sys, axonrl.interfaces.rlgraph as rl\n"
        "from axonrl.interfaces.rlgraph import agents, environments, spaces\n"
        "assert rl.DQNAgent is agents.DQNAgent and rl.GridWorld is environments.GridWorld\n"
        "rl.GridWorld('2x2')\n"
        "agent = rl.DQNAgent(state_space=rl.FloatBox(shape=(2,)), action_space=rl.IntBox(2), dueling_q=False,\n"
        "    network_spec=[dict(type='dense', units=4)], auto_build=False)\n"
        "assert not agent.graph_built\n"
        "assert not {'tensorflow', 'keras', 'ray'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_02_ways_to_create(tmp_path: Path) -> None:
    spec = {"type": "DQN-Agent", **DQN, "auto_build": False, "double_q": False}
    before = copy.deepcopy(spec)
    path = tmp_path / "dqn.json"
    path.write_text(json.dumps(spec), "utf-8")
    yaml = tmp_path / "dqn.yaml"
    yaml.write_text(json.dumps(spec), "utf-8")  # JSON is YAML
    rest = {key: value for key, value in spec.items() if key != "type"}
    agents = [
        Agent.from_spec(spec, discount=0.25),
        Agent.from_spec(str(path), discount=0.25),
        Agent.from_file(str(yaml), discount=0.25),
        Agent.from_spec("dqn", **{**rest, "discount": 0.25}),
        Agent.from_spec(DQNAgent, **{**rest, "discount": 0.25}),
        DQNAgent.from_spec(rest, discount=0.25),
        DQNAgent(str(path), discount=0.25),
        DQNAgent(spec, discount=0.25),
        Agent.from_spec({**spec, "type": "axonrl.interfaces.rlgraph.agents.DQNAgent"}, discount=0.25),
    ]
    assert spec == before
    for agent in agents:
        assert type(agent) is DQNAgent
        assert (agent.discount, agent.form["double_q"], agent.name) == (0.25, False, "dqn-agent")
        assert agent.form == agents[0].form
    assert Agent.from_spec(agents[0]) is agents[0]


@pytest.mark.parametrize(
    ("make", "argument", "words"),
    [
        (lambda: Agent.from_spec({**DQN, "type": "dnq"}), "Agent.from_spec: type", "dqn"),
        (lambda: Agent.from_spec(DQN), "Agent.from_spec: type", "random"),
        (lambda: RandomAgent.from_spec({**DQN, "type": "dqn"}), "RandomAgent.from_spec: type", "DQNAgent"),
        (lambda: Agent.from_spec("dqfd"), "Agent.from_spec: type", "import_observations"),
        (lambda: Agent(**DQN), "Agent", "DQNAgent"),
        (lambda: make_dqn(update_spec={"sync_intervall": 4}), "sync_intervall", "sync_interval"),
        (lambda: make_dqn(network_specs=[]), "network_specs", "network_spec"),
        (lambda: make_dqn(dueling_q=True), "DQNAgent: action_adapter_spec", "units_state_value_stream"),
        (
            lambda: make_dqn(action_adapter_spec={"units_advantage_stream": 3, "units_state_value_stream": 3}),
            "DQNAgent: action_adapter_spec",
            "dueling_q=True",
        ),
        (lambda: make_dqn(action_space=FloatBox(0.0, 1.0)), "DQNAgent: action_space", "IntBox"),
        (lambda: make_dqn(memory_spec="ring_buffer"), "DQNAgent: memory_spec", "prioritized_replay"),
        (lambda: make_dqn(discount=1.5), "DQNAgent: discount", "1.5"),
        (lambda: make_dqn(exploration_spec={"noise_spec": {"type": "gaussian_noise"}}), None, "noise_spec"),
        (lambda: make_dqn(network_spec=[{"type": "lstm", "units": 4}]), None, "IMPALAAgent"),
        (lambda: make_dqn(network_spec=[{"type": "dense", "unit": 4}]), "unit", "units"),
        (
            lambda: make_dqn(state_space=FloatBox(shape=(2, 2)), network_spec=[{"type": "dense", "units": 4}]),
            "DQNAgent: network_spec",
            "DQNAgent: network_spec must return a vector",
        ),
        (lambda: make_dqn(optimizer_spec={"type": "adam"}), "DQNAgent: optimizer_spec['learning_rate']", "adam"),
        # 10
        (
            lambda: make_dqn(update_spec={"sync_interval": 10, "update_interval": 4}),
            "DQNAgent: update_spec['sync_interval']",
            "4; got 10",
        ),
        (
            lambda: make_dqn(observe_spec={"n_step": 4, "buffer_size": 11}),
            "DQNAgent: observe_spec['buffer_size']",
            "12; got 11",
        ),
        (lambda: make_dqn(n_step=2, observe_spec={"n_step": 3}), "DQNAgent: n_step", "3"),
        (
            lambda: make_dqn(n_step=2, observe_spec={"buffer_enabled": False}),
            "DQNAgent: observe_spec['buffer_enabled']",
            "n_step",
        ),
    ],
)
def test_02_10_what_is_wrong_is_named(make: Any, argument: str | None, words: str) -> None:
    with pytest.raises(RLGraphError) as caught:
        make()
    assert words in str(caught.value)
    if argument is not None:
        assert caught.value.argument == argument
    assert isinstance(caught.value, ValueError)


def test_10_the_least_buffer_of_n_steps_and_the_default_interval() -> None:
    assert make_dqn(n_step=4, observe_spec={"buffer_size": 12}, auto_build=False).observe_spec["n_step"] == 4
    assert make_dqn(update_spec={"update_interval": 3}, auto_build=False).update_spec["sync_interval"] == 129


def test_03_building_by_hand() -> None:
    agent = make_dqn(auto_build=False)
    assert agent.graph_built is False
    for call in (lambda: agent.get_action(STATE), agent.update, agent.get_weights, agent.reset):
        with pytest.raises(RLGraphError, match=r"build\(\)"):
            call()
    agent.build()
    assert bool(agent.graph_built)
    assert agent.get_action(STATE) in (0, 1, 2)
    with pytest.raises(RLGraphError, match="built already"):
        agent.build()


def test_25_refused_and_ignored_settings() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"execution_spec": {"mode": "distributed"}}, "ApexExecutor"),
        ({"execution_spec": {"distributed_spec": {}}}, "ApexExecutor"),
        ({"execution_spec": {"device_strategy": "multi_gpu_sync"}}, "one learner"),
        ({"execution_spec": {"sed": 1}}, "seed"),
        ({"network_spec": [{"type": "embedding"}]}, "one-hot"),
        (
            {"network_spec": [{"type": "conv2d", "filters": 1, "kernel_size": 1, "data_format": "channels_first"}]},
            "transpose",
        ),
        ({"network_spec": len}, "list of layers"),
        ({"memory_spec": {"type": "replay", "next_states": False}}, "leave it out"),
        ({"optimizer_spec": {"type": "horovod"}}, "one learner"),
    ]
    for arguments, words in refused:
        with pytest.raises(RLGraphError, match=words):
            make_dqn(auto_build=False, **arguments)
    execution = {"seed": 3, "mode": "single", "disable_monitoring": True, "profiler_frequency": 3}
    with pytest.warns(RLGraphWarning) as warned:
        make_dqn(auto_build=False, execution_spec=execution)
    assert len(warned) == 1
    assert all(name in str(warned[0].message) for name in ("mode", "disable_monitoring", "profiler_frequency"))


# -- acting -----------------------------------------------------------------------------------------------------------


def test_04_one_state_or_a_batch() -> None:
    agent = make_dqn()
    action = agent.get_action(STATE)
    assert isinstance(action, np.int32)
    assert action.shape == ()
    assert agent.timesteps == 1
    actions = agent.get_action(np.stack([STATE] * 3), use_exploration=False)
    assert actions.shape == (3,)
    assert actions.dtype == np.int32
    assert agent.timesteps == 4
    for wrong in (np.zeros(3), np.zeros((2, 3)), [np.nan, 0.0], "state", np.zeros((1, 2, 2))):
        with pytest.raises(RLGraphError):
            agent.get_action(wrong)
    with pytest.raises(RLGraphError) as caught:
        agent.get_action(STATE, extra_returns="used_explorations")
    assert caught.value.argument == "DQNAgent.get_action: extra_returns"
    with pytest.raises(RLGraphError):
        agent.get_action(STATE, internals=[np.zeros(3)])
    assert agent.timesteps == 4


def test_05_greedy_acts_draw_nothing() -> None:
    exploration = {"epsilon_spec": {"decay_spec": {"type": "constant_decay", "constant_value": 0.5}}}
    first, second = make_dqn(exploration_spec=exploration), make_dqn(exploration_spec=exploration)
    explored = []
    for agent in (first, second):
        found = []
        for _ in range(40):
            if agent is second:
                greedy = {int(agent.get_action(STATE, use_exploration=False)) for _ in range(50)}  # 5
                assert len(greedy) == 1
            found.append(int(agent.get_action(STATE)))
        explored.append(found)
    assert explored[0] == explored[1]
    assert len(set(explored[0])) == 3


def test_06_extras_come_in_their_order() -> None:
    agent = make_dqn(preprocessing_spec=[{"type": "divide", "divisor": 2}])
    action, states = agent.get_action(STATE, extra_returns="preprocessed_states")
    np.testing.assert_allclose(states, STATE / 2, rtol=1e-6)
    names = {"used_exploration", "internal_states", "preprocessed_states"}
    again, states, internals, used = agent.get_action(STATE, extra_returns=names)
    assert (again, internals, used) == (action, (), False)
    np.testing.assert_allclose(states, STATE / 2, rtol=1e-6)


def test_07_preprocessing() -> None:
    agent = make_dqn(preprocessing_spec=[{"type": "divide", "divisor": 2}])
    np.testing.assert_array_equal(agent.preprocess_states([2.0, 4.0]), [1.0, 2.0])
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=2).astype(np.float32)
        assert agent.get_action(x, use_exploration=False) == agent.get_action(
            x / 2, use_exploration=False, apply_preprocessing=False
        )


def test_19_epsilon() -> None:
    decay = {"from": 1.0, "to": 0.0, "num_timesteps": 50}
    agent = make_dqn(exploration_spec={"epsilon_spec": {"decay_spec": decay}})
    used = [agent.get_action(STATE, extra_returns="used_exploration")[1] for _ in range(60)]
    assert any(used)
    assert not any(used[49:])  # the fiftieth call is at timestep 50
    states = np.zeros((3000, 2))
    first = make_dqn(exploration_spec={"epsilon_spec": {"decay_spec": {**decay, "num_timesteps": 150_000}}})
    _, used = first.get_action(states, extra_returns=["used_exploration"])  # at timestep 3000: 0.98
    assert np.mean(used) == pytest.approx(0.98, abs=0.01)
    always = make_dqn(
        exploration_spec={"epsilon_spec": {"decay_spec": {"type": "constant_decay", "constant_value": 1.0}}}
    )
    actions, used = always.get_action(states, extra_returns=["used_exploration"])
    assert used.all()
    np.testing.assert_allclose(np.bincount(actions, minlength=3), 1000, atol=120)


# -- observing --------------------------------------------------------------------------------------------------------


def test_08_buffers_by_environment() -> None:
    agent = make_dqn(observe_spec={"buffer_size": 3})

    def observe(name: str | None, *, terminal: bool = False) -> None:
        agent.observe(STATE, 1, [], 1.0, STATE, terminal, env_id=name)

    observe(None)
    observe(None)
    assert len(agent.memory) == 0
    for buffer in (agent.states_buffer, agent.actions_buffer, agent.rewards_buffer, agent.terminals_buffer):
        assert {name: len(rows) for name, rows in buffer.items()} == {"env_0": 2}
    assert agent.actions_buffer["env_0"] == [1, 1]
    observe(None)
    assert len(agent.memory) == 3
    assert agent.rewards_buffer == {}
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


def test_observe_refuses_without_storing() -> None:
    agent = make_dqn(observe_spec={"buffer_enabled": False})
    good: dict[str, Any] = {
        "preprocessed_states": STATE,
        "actions": 1,
        "internals": [],
        "rewards": 1.0,
        "next_states": STATE,
    }
    for name, value in (
        ("actions", 3),
        ("rewards", np.nan),
        ("next_states", [1.0]),
        ("preprocessed_states", [np.inf, 0]),
    ):
        with pytest.raises(RLGraphError) as caught:
            agent.observe(**{**good, name: value})
        assert caught.value.argument == f"DQNAgent.observe: {name}"
    with pytest.raises(RLGraphError):
        agent.observe(**good, env_id=3)  # type: ignore[arg-type]
    assert len(agent.memory) == 0
    agent.observe(**good)
    agent.observe([STATE] * 4, [0, 1, 2, 0], [], [1.0] * 4, [STATE] * 4)
    assert len(agent.memory) == 5


def test_a_batch_is_cut_at_its_terminals() -> None:
    agent = make_dqn(observe_spec={"buffer_size": 50})
    agent.observe([STATE] * 5, [0] * 5, [], [1.0] * 5, [STATE] * 5, [False, True, False, True, False])
    assert len(agent.memory) == 4
    assert len(agent.rewards_buffer["env_0"]) == 1


def test_09_rewards_over_several_timesteps() -> None:
    agent = make_dqn(n_step=2, store_last_memory_batch=True, memory_spec={"type": "replay", "capacity": 4})
    for step, reward in enumerate((1.0, 2.0, 4.0)):
        agent.observe([float(step), 0.0], 0, [], reward, [step + 1.0, 0.0], step == 2)
    agent.observe([5.0, 0.0], 0, [], 8.0, [6.0, 0.0])
    agent.flush_env_buffers("env_0")
    agent.update()
    batch = agent.last_memory_batch
    assert batch is not None
    assert set(batch) == {"states", "actions", "rewards", "terminals", "next_states"}
    wanted = {
        0.0: (2.0, True, 2.0) if False else (2.0, False, 2.0),
        1.0: (4.0, True, 3.0),
        2.0: (4.0, True, 3.0),
        5.0: (8.0, False, 6.0),
    }
    rows = zip(batch["states"][:, 0], batch["rewards"], batch["terminals"], batch["next_states"][:, 0], strict=True)
    found = {float(state): (float(reward), bool(terminal), float(after)) for state, reward, terminal, after in rows}
    assert found
    assert all(found[state] == wanted[state] for state in found)


def test_a_full_buffer_is_no_end_of_the_world() -> None:
    agent = make_dqn(observe_spec={"buffer_size": 2}, store_last_memory_batch=True)
    agent.observe([STATE] * 4, [0] * 4, [], [1.0] * 4, [STATE] * 4)
    agent.update()
    assert agent.last_memory_batch is not None
    assert not agent.last_memory_batch["terminals"].any()


def test_import_observations() -> None:
    agent = make_dqn()
    assert agent.import_observations([records(3), records(4, seed=1)]) == 7
    assert len(agent.memory) == 7
    with pytest.raises(RLGraphError, match="next_states"):
        agent.import_observations({key: value for key, value in records(3).items() if key != "next_states"})
    with pytest.raises(RLGraphError):
        agent.import_observations([records(3), {**records(3), "actions": [0, 1, 9]}])
    assert len(agent.memory) == 7


# -- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("huber", [False, True])
def test_11_td_losses_by_hand(huber: bool) -> None:
    agent = make_dqn(huber_loss=huber)
    batch = {"states": [STATE] * 3, "actions": [1] * 3, "next_states": [STATE] * 3, "terminals": [True] * 3}
    value = float(agent.call_api_method("get_q_values", STATE)[1])
    rewards = value + np.array([-0.5, 0.0, 0.5]) if huber else np.array([0.0, 1.0, 2.0])
    before = agent.get_weights()
    loss, each = agent.get_td_loss({**batch, "rewards": rewards})
    assert each[0] - 2 * each[1] + each[2] == pytest.approx(0.25 if huber else 2.0, abs=1e-3)  # half: the square's 1/2
    _, tripled = agent.get_td_loss({**batch, "rewards": rewards, "importance_weights": [1.0, 1.0, 3.0]})
    np.testing.assert_allclose(tripled, each * [1, 1, 3], rtol=1e-6)
    assert loss == pytest.approx(each.mean())
    assert equal(before, agent.get_weights())
    assert agent.updates == 0


@pytest.mark.parametrize("double", [False, True])
def test_12_what_records_bootstrap_from(double: bool) -> None:
    agent = make_dqn(double_q=double)
    target = agent.get_weights()
    rng = np.random.default_rng(1)
    agent.set_policy_weights({name: rng.normal(size=array.shape).astype(np.float32) for name, array in target.items()})
    batch = records(32)
    _, each = agent.get_td_loss(batch)
    np.testing.assert_allclose(each, bellman(agent, batch, target, double=double) ** 2, rtol=1e-3, atol=1e-5)
    agent.call_api_method("sync_target_qnet")
    _, each = agent.get_td_loss(batch)
    np.testing.assert_allclose(
        each, bellman(agent, batch, agent.get_weights(), double=double) ** 2, rtol=1e-3, atol=1e-5
    )


def test_13_the_target_is_copied_before_every_second_update() -> None:
    agent, batch = make_dqn(), records(6)
    target = agent.get_weights()
    for number in range(1, 6):
        before = agent.get_weights()
        agent.update(batch)
        if number % 2 == 0:
            target = before
        _, each = agent.get_td_loss(batch)
        np.testing.assert_allclose(each, bellman(agent, batch, target, double=True) ** 2, rtol=1e-3, atol=1e-5)


def test_14_updates_that_cannot_be() -> None:
    agent = make_dqn()
    agent.import_observations(records(3))
    before = agent.get_weights()
    calls: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
        (agent.update, ("4", "3")),
        (lambda: agent.update({"states": [STATE]}), ("actions", "rewards", "terminals", "next_states")),
        (lambda: agent.update({**records(2), "state": 1}), ("state",)),
        (lambda: agent.update({**records(2), "rewards": [1.0]}), ("rewards",)),
        (lambda: agent.update({**records(2), "importance_weights": [1.0, -1.0]}), ("importance_weights",)),
    ]
    for call, words in calls:
        with pytest.raises(RLGraphError) as caught:
            call()
        assert all(word in str(caught.value) for word in words)
    assert equal(before, agent.get_weights())
    assert agent.updates == 0
    agent.import_observations(records(1))
    agent.update()
    assert agent.updates == 1


def test_15_a_loss_unpacks() -> None:
    first, second, batch = make_dqn(), make_dqn(), records(7)
    found = first.update(batch)
    loss, each = second.update(batch)  # type: ignore[misc]
    assert float(found) == loss == pytest.approx(each.mean(), rel=1e-6)  # type: ignore[arg-type]
    assert each.shape == (7,)
    assert isinstance(found, float)


def test_decay_of_sgd() -> None:
    """The third update has a rate of 0.1 / (1 + 0.5 * 2), so that half the step is taken."""
    agent = make_dqn(optimizer_spec={"type": "sgd", "learning_rate": 0.1, "decay": 0.5})
    plain = make_dqn(optimizer_spec={"type": "sgd", "learning_rate": 0.1})
    batch = {**records(4), "terminals": [True] * 4}
    for one in (agent, plain):
        own = one.get_weights()
        one.update(batch)
        one.update(batch)
        one.set_weights(own)
    start = agent.get_weights()
    for one in (agent, plain):
        one.update(batch)
    for name, array in start.items():
        whole = plain.get_weights()[name] - array
        np.testing.assert_allclose(agent.get_weights()[name] - array, whole / 2, rtol=1e-3, atol=1e-6)
        assert np.abs(whole).max() > 1e-4


def test_16_weights_fit_or_nothing_is_set() -> None:
    agent = make_dqn()
    own = agent.get_weights()
    name = "dense-0/kernel"
    wrongs = [
        {**own, name: np.zeros((3, 8), np.float32)},
        {**own, name: np.full((2, 8), np.nan, np.float32)},
        {**own, name: own[name].astype(np.float64)},
        {**own, "dense-1/kernel": own[name]},
        {key: value for key, value in own.items() if key != name},
    ]
    for wrong in wrongs:
        with pytest.raises(RLGraphError):
            agent.set_weights(wrong)
    assert equal(own, agent.get_weights())
    agent.get_weights()[name][:] = 7.0
    assert equal(own, agent.get_policy_weights())
    agent.set_weights({key: value + 1 for key, value in own.items()})
    assert agent.get_weights()[name][0, 0] == own[name][0, 0] + 1


def test_priorities() -> None:
    agent = ApexAgent(
        **{
            **DQN,
            "memory_spec": {"type": "mem_prioritized_replay", "capacity": 8, "beta": 1.0},
            "store_last_memory_batch": True,
            "store_last_q_table": True,
        }
    )
    assert agent.form["huber_loss"]
    assert agent.name == "apex-agent"
    agent.import_observations(records(8))
    agent.update()
    batch, table = agent.last_memory_batch, agent.last_q_table
    assert batch is not None
    assert table is not None
    assert table["q_values"].shape == (4, 3)
    np.testing.assert_array_equal(batch["importance_weights"], np.ones(4))
    priorities = np.where(np.arange(8) == 5, 1e6, 1e-3)
    agent.memory.update_records(np.arange(8), priorities)
    agent.update()
    assert agent.last_memory_batch is not None
    assert set(agent.last_memory_batch["indices"].tolist()) == {5}
    assert agent.num_updates == 2
    with pytest.raises(RLGraphError):
        agent.memory.update_records([8], [1.0])
    with pytest.raises(RLGraphError, match="prioritized_replay"):
        make_dqn().memory.update_records([0], [1.0])


def test_equal_seeds_and_drawn_ones() -> None:
    def run(agent: DQNAgent) -> tuple[list[Any], dict[str, Any]]:
        found: list[Any] = [int(agent.get_action(STATE)) for _ in range(5)]
        agent.import_observations(records(20))
        found += [float(agent.update()) for _ in range(3)]  # type: ignore[arg-type]
        return found, agent.get_weights()

    exploration = {"epsilon_spec": {"decay_spec": {"from": 1.0}}}
    first, second = (run(make_dqn(exploration_spec=exploration)) for _ in range(2))
    assert first[0] == second[0]
    assert equal(first[1], second[1])
    drawn = [make_dqn(execution_spec={}, auto_build=False).seed for _ in range(2)]
    assert drawn[0] != drawn[1]


# -- files and the rest -----------------------------------------------------------------------------------------------


def test_17_store_and_load(tmp_path: Path) -> None:
    exploration = {"epsilon_spec": {"decay_spec": {"from": 1.0}}}
    agent = make_dqn(exploration_spec=exploration, memory_spec={"type": "prioritized_replay", "capacity": 30})
    agent.import_observations(records(40))
    for _ in range(3):
        agent.get_action(STATE)
        agent.update()
    agent.observe(STATE, 1, [], 2.0, STATE, env_id="a")
    folder = agent.store_model(tmp_path)
    assert folder == str(tmp_path / "model.ckpt-3")
    other = make_dqn(
        exploration_spec=exploration,
        memory_spec={"type": "prioritized_replay", "capacity": 30},
        execution_spec={"seed": 9},
    )
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
    agent = make_dqn(saver_spec={"directory": str(tmp_path), "max_checkpoints": 2, "checkpoint_basename": "m"})
    for _ in range(3):
        agent.get_action(STATE)
        agent.store_model()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m-2", "m-3"]
    assert agent.store_model(add_timestep=False) == str(tmp_path / "m")
    with pytest.raises(RLGraphError, match="saver_spec"):
        make_dqn().store_model()


def test_api_methods_by_name() -> None:
    agent = make_dqn(preprocessing_spec=[{"type": "divide", "divisor": 2}])
    call = agent.call_api_method
    seen, action = call("get_preprocessed_state_and_action", [STATE, 5, False])
    np.testing.assert_allclose(seen, STATE / 2, rtol=1e-6)
    assert call("action_from_preprocessed_state", [seen, 5, False])[1] == action
    assert call("action_from_preprocessed_state", [seen, 5, False], return_ops=1) == action
    assert agent.timesteps == 3
    batch = records(4)
    given = [batch[name] for name in ("states", "actions", "rewards", "next_states", "terminals")]
    assert call("insert_records", given) == 4
    given = [batch[name] for name in ("states", "actions", "rewards", "terminals", "next_states")]
    assert call("update_from_external_batch", [*given, np.ones(4)]) == pytest.approx(
        float(make_dqn().update(batch))  # type: ignore[arg-type]
    )
    call("update_from_memory")
    assert agent.updates == 2
    with pytest.raises(RLGraphError, match="sync_target_qnet"):
        call("sync_target_net")
    for name in ("define_graph_api", "define_api_methods"):
        with pytest.raises(RLGraphError, match=r"docs/model_fn\.md"):
            getattr(agent, name)()


def test_terminated_agents_do_nothing() -> None:
    with make_dqn() as agent:
        agent.get_action(STATE)
    agent.terminate()
    for call in (lambda: agent.get_action(STATE), agent.update, agent.reset, agent.get_weights):
        with pytest.raises(RLGraphError, match="terminated"):
            call()


def test_random_agent() -> None:
    agent = RandomAgent(FloatBox(shape=(2,)), IntBox(5, 8), execution_spec={"seed": 1})
    drawn = agent.get_action(np.zeros((900, 2)))
    assert sorted(set(drawn.tolist())) == [5, 6, 7]
    agent.observe(STATE, 6, [], 1.0, STATE)
    assert agent.update() is None
    assert (agent.memory, agent.last_memory_batch, agent.last_q_table) == (None, None, None)
    again = RandomAgent({"type": "float", "shape": (2,)}, IntBox(5, 8), execution_spec={"seed": 1})
    np.testing.assert_array_equal(again.get_action(np.zeros((900, 2))), drawn)


def test_several_actions_and_dueling_streams() -> None:
    streams = {"units_state_value_stream": 4, "units_advantage_stream": 5}
    agent = make_dqn(action_space=IntBox(0, 3, (2,)), dueling_q=True, action_adapter_spec=streams)
    shapes = {name: array.shape for name, array in agent.get_weights().items()}
    assert shapes["action-adapter/state-value-stream/kernel"] == (8, 4)
    assert shapes["action-adapter/advantage-stream/kernel"] == (8, 5)
    values = agent.call_api_method("get_q_values", np.stack([STATE, -STATE]))
    assert values.shape == (2, 2, 3)
    assert agent.get_action(STATE).shape == (2,)
    batch = {**records(2), "actions": [[0, 1], [2, 2]], "terminals": [True, True]}
    chosen = agent.call_api_method("get_q_values", batch["states"])[[[0], [1]], [[0, 1]], batch["actions"]]
    td = (batch["rewards"][:, None] - chosen).mean(-1)
    np.testing.assert_allclose(agent.get_td_loss(batch)[1], td**2, rtol=1e-4)


def test_18_an_exported_policy_acts_without_tensorflow(tmp_path: Path) -> None:
    agent = make_dqn(
        action_space=IntBox(5, 8),
        preprocessing_spec=[{"type": "divide", "divisor": 2}, {"type": "clip", "min": -1, "max": 1}],
    )
    agent.import_observations({**records(20), "actions": np.arange(20) % 3 + 5})
    for _ in range(3):
        agent.update()
    with pytest.warns(RLGraphWarning, match="meta"):
        folder = agent.export_graph(tmp_path / "policy.meta")
    assert folder == str(tmp_path / "policy")
    states = np.random.default_rng(0).normal(scale=3, size=(50, 2)).astype(np.float32)
    wanted = agent.get_action(states, use_exploration=False)
    assert len(set(wanted.tolist())) > 1
    np.save(tmp_path / "states.npy", states)
    code = (
        "import sys, json, numpy as np\n"
        "from axonrl.runtimes import Policy\n"
        f"policy, states = Policy.load({folder!r}), np.load({str(tmp_path / 'states.npy')!r})\n"
        "print(json.dumps([policy.act(states).tolist(), [int(policy.act(one)) for one in states[:5]]]))\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True)
    batch, single = json.loads(done.stdout)
    assert batch == wanted.tolist()
    assert single == wanted[:5].tolist()
    with pytest.raises(RLGraphError, match="sequence"):
        make_dqn(preprocessing_spec=["sequence", {"type": "reshape", "flatten": True}]).export_graph(tmp_path / "other")
    with pytest.raises(RLGraphError, match="something else"):
        agent.export_graph(tmp_path)
