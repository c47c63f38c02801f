"""The protocol of Tensorforce's interface: act, observe, updates and variables, with exact results."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.tensorforce import Agent, util
from axonrl.compat.tensorforce.agents import PPOAgent, RandomAgent, TensorforceAgent

from .agents import ACTIONS, STATES, S, generic, make, refused

pytestmark = pytest.mark.usefixtures("traced_once")
TINY = [dict(type="linear", size=2)]


@pytest.fixture(scope="module")
def one_learner(in_tensorflow: Any) -> Any:
    with in_tensorflow():
        return generic(exploration=1.0, parallel_interactions=2)


@pytest.fixture
def learner(one_learner: Any) -> Any:
    """An agent with a model, in which no episode runs."""
    one_learner.reset()
    return one_learner


def decaying(decay: str, **arguments: Any) -> dict[str, Any]:
    return dict(type="decaying", decay=decay, unit="timesteps", **arguments)


@pytest.fixture(scope="module")
def nested(in_tensorflow: Any) -> Any:
    """An agent with actions of all types, each with a schedule of its own, at timestep 0."""
    turn, grip = dict(type="float", min_value=-1.0, max_value=2.0), dict(type="bool", shape=(2,))
    exploration = {
        "a": decaying("exponential", initial_value=0.1, decay_steps=1, decay_rate=0.5),
        "b/c": dict(type="piecewise_constant", unit="timesteps", boundaries=[0], values=[0.1, 0.0]),
        "b/d": decaying("polynomial", initial_value=1.0, final_value=0.0, decay_steps=10),
    }
    with in_tensorflow():
        return generic(
            actions=dict(a=dict(type="int", num_values=2), b=dict(c=turn, d=grip)),
            policy=dict(network=TINY, use_beta_distribution=False),
            exploration=exploration,
        )


def run(agent: Any, episodes: int, length: int, **settings: Any) -> list[int]:
    """Episodes of equal length; the episodes after which there was an update."""
    updated = []
    for _ in range(episodes):
        for t in range(length):
            agent.act(S)
            if agent.observe(1.0, t == length - 1, **settings):
                updated.append(agent.episodes)
    return updated


def test_what_has_no_model_loads_no_tensorflow(tmp_path: Path) -> None:
    custom = "dict(a=dict(type='scalar'), b=dict(type='histogram'), c=dict(type='image'))"
    code = f"""
import sys, axonrl.compat.tensorforce as tf
from axonrl.compat.tensorforce import environments, execution
assert environments.Environment is tf.Environment and execution.Runner is tf.Runner
assert 'gymnasium' not in sys.modules
from axonrl.compat.tensorforce import agents
assert agents.Agent is tf.Agent
tf.Environment.create('CartPole-v1').close()
a = tf.Agent.create('random', states=dict(type='float', shape=(1,)), actions=dict(type='int', num_values=2),
                    recorder=dict(directory={str(tmp_path)!r}),
                    summarizer=dict(directory={str(tmp_path)!r}, labels='all', custom={custom}))
a.act([0.0]); a.observe(1.0, True); a.summarize('a', 1.0); a.summarize('b', [1.0]); a.summarize('c', [[[[0.5]]]])
a.close(); import axonrl.compat.tensorforce.specs.normal_form
print([name for name in ('tensorflow', 'keras', 'matplotlib') if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["[]"], done.stderr


def test_act_and_observe_alternate_to_the_end_of_the_longest_episode() -> None:
    agent = make()
    refused(agent.observe, 1.0)
    agent.act(S)
    assert refused(agent.act, S).value == 0
    assert agent.observe(1.0) is False
    assert agent.timesteps == 1
    refused(agent.observe, 1.0)
    refused(agent.act, [0.1, float("nan"), 0.0])
    refused(agent.act, S, deterministic=True)  # is of independent acts
    refused(agent.act, S, internals={})
    agent.act(S)
    refused(agent.observe, float("inf"))
    agent.reset()
    agent.act(S)
    assert (agent.timesteps, agent.episodes) == (3, 0)
    refused(agent.observe, 0.0, terminal=3)
    agent.observe(0.0, terminal=2)
    assert agent.episodes == 1
    for _ in range(20):
        agent.act(S)
        agent.observe(0.0)
    agent.act(S)
    refused(agent.observe, 0.0)


def test_evaluation_is_greedy_and_leaves_no_trace(learner: Any) -> None:
    before = learner.timesteps
    found = {int(learner.act(S, evaluation=True)) for _ in range(20)}
    assert len(found) == 1
    assert learner.timesteps == before
    action = learner.act(S, evaluation=True)
    assert isinstance(action, np.int32)
    assert learner.act(S, internals=learner.initial_internals(), evaluation=True) == (action, {})


def test_queries_and_values_for_one_call(learner: Any) -> None:
    action, shown = learner.act(S, query="exploration", exploration=0.5)
    assert shown == 0.5
    assert isinstance(action, np.int32)
    learner.observe(0.0)
    assert learner.act(S, query=["exploration"], exploration=0.5)[1] == [0.5]
    learner.observe(0.0)
    assert learner.act(S, query="exploration")[1] == 1.0


def test_schedules(nested: Any) -> None:
    shown = {"a": [0.1, 0.05, 0.025], "b/c": [0.1, 0.0, 0.0], "b/d": [1.0, 0.9, 0.8]}
    names = [f"{name}-exploration" for name in shown]
    found = []
    for _ in range(3):
        found.append(nested.act(S, query=names)[1])
        nested.observe(0.0)
    assert np.array_equal(np.array(found).T, np.array(list(shown.values()), np.float32))


def test_unknown_names_and_numbers_out_of_bounds(learner: Any) -> None:
    assert refused(learner.act, S, independent=True, explorations=0.5).argument == "explorations"
    assert refused(learner.act, S, independent=True, query="explorations").argument == "explorations"
    learner.act(S)
    for wrong in (dict(learning_rat=0.5), dict(query="learning-rat")):
        assert refused(learner.observe, 0.0, **wrong).argument == "learning-rat"
    for name, value in {"discount": 1.5, "update-frequency": 0, "learning_rate": -1.0}.items():
        assert refused(learner.observe, 1.0, True, **{name: value}).value == value
    assert learner.observe(0.0, learning_rate=0.5, discount=1.0, query="learning-rate") == (False, 0.5)


@pytest.mark.parametrize("kind", ["random", "model"])
def test_masks(kind: str, learner: Any) -> None:
    agent = make() if kind == "random" else learner
    states = dict(state=S, action_mask=[1.0, 0.0, 1.0])
    more: dict[str, Any] = {} if kind == "random" else dict(exploration=1.0)
    found = [int(agent.act(states, independent=True, **more)) for _ in range(300)]
    assert set(found) == {0, 2}
    for mask in ([False] * 3, [True, True], [2, 0, 1]):
        refused(agent.act, dict(state=S, action_mask=mask), independent=True)
    assert agent.act(states, **more) in (0, 2)
    assert agent.observe(1.0, True) == (kind == "model")  # and learns from it


def test_types_of_actions_and_their_bounds(nested: Any) -> None:
    for agent in (make(actions=nested.actions_spec), nested):
        action = agent.act(S, independent=True)
        assert isinstance(action["a"], np.int32)
        assert isinstance(action["b"]["c"], np.float32)
        assert (action["b"]["d"].dtype, action["b"]["d"].shape) == (np.bool_, (2,))
    noise: dict[str, Any] = {"b/c-exploration": 10.0}
    found = np.array([nested.act(S, independent=True, **noise)["b"]["c"] for _ in range(60)])
    assert found.min() == -1.0
    assert found.max() == 2.0


def test_actions_come_in_the_types_that_a_program_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "np_dtype_mapping", {"bool": np.bool_, "int": np.int16, "float": np.float16})
    action = make(actions=dict(a=ACTIONS, b=dict(type="float", shape=(2,)))).act(S)
    assert isinstance(action["a"], np.int16)
    assert (action["b"].dtype, action["b"].shape) == (np.float16, (2,))


@pytest.mark.usefixtures("unconverted")
def test_updates_by_episodes() -> None:
    agent = generic(update=dict(unit="episodes", batch_size=3), policy=TINY)
    assert run(agent, 9, 2) == [3, 6, 9]
    assert agent.updates == 3
    agent.assign_variable("global-episode", 0)
    assert run(agent, 5, 2, update_frequency=1) == [3, 4, 5]
    assert agent.updates == 6


def updated_at(agent: Any, last: int, **settings: Any) -> list[int]:
    """The timesteps up to the last one at which there was an update; the 20th ends an episode."""
    updated = []
    for t in range(1, last + 1):
        agent.act(S)
        if agent.observe(0.5, t == 20, **settings):
            updated.append(agent.timesteps)
    return updated


DQN = dict(memory=100, batch_size=4, update_frequency=3, exploration=0.1, network=TINY)


@pytest.mark.usefixtures("unconverted")
@pytest.mark.parametrize(
    ("agent", "arguments", "last", "at"),
    [
        ("dqn", DQN, 17, [6, 9, 12, 15]),
        ("tensorforce", dict(update=5, objective="policy_gradient", reward_estimation=dict(horizon=3), policy=TINY),
         20, [9, 14, 19]),
        ("a2c", dict(batch_size=10, network=TINY, critic_network=TINY), 31, [11, 21, 31]),
    ],
)  # fmt: skip
def test_updates_by_timesteps(agent: str, arguments: dict[str, Any], last: int, at: list[int]) -> None:
    made = make(agent, **arguments)
    assert updated_at(made, last) == at
    assert made.updates == len(at)
    if agent == "dqn":
        made.reset()
        made.assign_variable("global-timestep", 0)
        assert updated_at(made, 17, update_start=10) == [10, 13, 16]


def test_lanes(learner: Any) -> None:
    agent = learner
    moves = agent.act([S, S], parallel=[0, 1])
    assert len(moves) == 2
    assert agent.observe([1.0, 1.0], [True, True], parallel=[0, 1]) == 2
    agent.act(S, parallel=1)
    assert agent.observe(1.0, parallel=np.int64(1)) is False
    wrong: dict[Any, Any] = {2: 1.0, (): [], (0, 0): [1.0, 1.0]}
    for parallel in wrong:
        error = refused(agent.act, [S] * len(parallel) if isinstance(parallel, tuple) else S, parallel=parallel)
        assert (error.argument, error.value) == ("Agent.act: parallel", parallel)
    agent.act([S, S], parallel=[0, 1])
    for parallel, reward in wrong.items():
        error = refused(agent.observe, reward, parallel=parallel)
        assert (error.argument, error.value) == ("Agent.observe: parallel", parallel)
    assert agent.observe([1.0, 1.0], parallel=[0, 1]) == 0
    several = dict(update=5, reward_estimation=dict(horizon=3), parallel_interactions=2)
    assert refused(generic, **several).argument == "Agent.create: parallel_interactions"


@pytest.mark.parametrize(
    ("agent", "given"),
    [
        ("trpo", dict(batch_size=1)),
        ("dqn", dict(memory=50, batch_size=2, update_frequency=1, exploration=0.1)),
        ("dpg", dict(memory=50, batch_size=2, update_frequency=1, critic_network=TINY, actions=dict(type="float"))),
    ],
)
def test_agents_learn_in_litert(agent: str, given: dict[str, Any]) -> None:
    """PPO does, too: in test_tf_learning.py."""
    made = make(agent, network=TINY, **given)
    assert type(made.executor).__name__ == "LiteRTExecutor"
    run(made, 1, 4)
    assert made.updates > 0
    assert all(np.isfinite(made.get_variable(name)).all() for name in made.get_variables())


def experience(agent: Any, at_once: bool) -> None:
    rng = np.random.default_rng(0)
    for length in (3, 4):
        states = rng.normal(size=(length, 3)).astype(np.float32)
        actions = rng.integers(0, 3, length)
        terminal = np.arange(length) == length - 1
        reward = rng.normal(size=length)
        if at_once:
            agent.experience(states=states, actions=actions, terminal=terminal, reward=reward)
        else:
            for t in range(length):
                agent.experience(states=states[t], actions=actions[t], terminal=bool(terminal[t]), reward=reward[t])


@pytest.mark.usefixtures("unconverted")
def test_experience_and_update() -> None:
    losses = []
    for at_once in (True, False):
        agent = generic(update=dict(unit="episodes", batch_size=2))
        refused(agent.update)
        experience(agent, at_once)
        assert (agent.timesteps, agent.episodes, agent.updates) == (0, 0, 0)
        losses.append(agent.update(query="loss"))
        assert agent.updates == 1
        agent.act(S)
        refused(experience, agent, at_once)
    assert losses[0] == losses[1]
    assert np.isfinite(losses[0])


def test_variables_and_output_tensors(learner: Any) -> None:
    name = "policy/policy-network/dense0/weights"
    assert name in learner.get_variables()
    value = learner.get_variable(name)
    assert value.shape == (3, 8)
    learner.assign_variable(f"agent/{name}", value + 1)
    assert np.array_equal(learner.get_variable(name), value + 1)
    learner.assign_variable(name, value)
    huge = np.full((3, 8), 1e300)
    for wrong in (("nothing", value), (name, value.T), (name, value * np.nan), (name, huge), ("global-timestep", -1)):
        refused(learner.assign_variable, *wrong)
    assert learner.get_output_tensors("act") == ["action", "timestep"]
    assert learner.get_output_tensors("observe") == ["updated", "episode", "update"]
    refused(learner.get_output_tensors, "fly")


@pytest.mark.usefixtures("unconverted")
def test_internal_states() -> None:
    lstm, gru = dict(type="internal_lstm", size=4, length=2), dict(type="internal_gru", size=3, length=2)
    agent = generic(policy=[lstm], baseline_policy=[gru], baseline_objective="value")
    internals = agent.initial_internals()
    assert sorted(array.shape for array in internals.values()) == [(2, 4), (3,)]
    _, first = agent.act(S, internals=internals, evaluation=True)
    _, second = agent.act(S, internals=first, evaluation=True)
    assert not any(np.array_equal(first[name], second[name]) for name in first)
    weights = [
        name for name in agent.get_variables() if name.endswith("internal_lstm0/weights") or "gru0/weights" in name
    ]
    before = [agent.get_variable(name) for name in weights if "optimizer" not in name]
    assert len(before) == 2
    assert run(agent, 2, 3) == [1, 2]
    after = [agent.get_variable(name) for name in weights if "optimizer" not in name]
    assert not any(map(np.array_equal, before, after))


def test_ways_to_create(tmp_path: Path) -> None:
    spec = dict(agent="random", name="lucky")
    file = tmp_path / "agent.json"
    file.write_text(json.dumps(spec))
    given: dict[str, Any] = {key: value for key, value in spec.items() if key != "agent"}
    agents = [
        make("random", **given),
        make(spec),
        make(str(file)),
        make("axonrl.compat.tensorforce.agents.RandomAgent", **given),
        make(RandomAgent, **given),
    ]
    again = Agent.create(agents[0], states=STATES)
    assert again is agents[0]
    assert all(one.spec == agents[0].spec for one in agents)
    assert spec == dict(agent="random", name="lucky")
    assert issubclass(PPOAgent, TensorforceAgent)
    assert isinstance(agents[0], Agent)
    assert not isinstance(agents[0], TensorforceAgent)
    assert "'ppo'" in str(refused(make, "pppo"))


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (dict(states=dict(type="int", shape=())), "states['num_values']"),
        (dict(actions=dict(type="float", min_value=2.0, max_value=1.0)), "actions['min_value']"),
        (dict(states=dict(a=STATES), actions=dict(a=ACTIONS)), "actions"),
        (dict(policy=[dict(type="dense")]), "policy['network']['layers'][0]['size']"),
    ],
)
def test_refused_before_training(wrong: dict[str, Any], argument: str) -> None:
    assert refused(generic, **wrong).argument.partition(": ")[2] == argument


def test_closing() -> None:
    with make() as agent:
        agent.act(S, independent=True)
    for _ in range(2):
        assert "closed" in str(refused(agent.act, S, independent=True))
        agent.close()
