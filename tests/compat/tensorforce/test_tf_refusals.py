"""Wrong calls of an agent: each is a TensorforceError that names its argument, and changes nothing."""

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from axonrl.compat.tensorforce import Agent, TensorforceError
from axonrl.compat.tensorforce.agents.acting import Acted, Chooser, Levels
from axonrl.compat.tensorforce.spaces.specs import read_values
from axonrl.core.errors import NonFiniteError

from .agents import S, generic, make, refused


@pytest.fixture(scope="module")
def learner(in_tensorflow: Any) -> Any:
    """An agent with a model whose episodes never end, and so never learns in acting."""
    with in_tensorflow():
        return generic(max_episode_timesteps=4)


def progress(agent: Any) -> Any:
    lanes = [(lane.pending is None, lane.steps) for lane in agent.lanes]
    return agent.timesteps, agent.episodes, agent.updates, agent.fed.steps, lanes


def test_states_and_indices_that_are_none() -> None:
    agent = make(states=dict(type="int", shape=(), num_values=3))
    agent.act(2.0, independent=True)  # a whole float is an int
    for wrong in (1.5, float("nan"), 3.0):
        assert refused(agent.act, wrong, independent=True).argument == "Agent.act: states"
    assert refused(agent.act, 2, parallel=np.array(0)).argument == "Agent.act: parallel"
    assert refused(make().act, [1e300, 0.0, 0.0]).argument == "Agent.act: states"


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (dict(reward=[1.0, [1, [2]]]), "Agent.observe: reward"),
        (dict(terminal=[2, 2], next_states=[S, [1.0]]), "Agent.observe: next_states: states"),
    ],
)
def test_a_wrong_entry_of_the_second_lane_stores_nothing_of_the_first(wrong: dict[str, Any], argument: str) -> None:
    agent = make(parallel_interactions=2)
    _, internals = agent.act([S, S], parallel=[0, 1], internals=[{}, {}], independent=True)
    agent.act([S, S], parallel=[0, 1], internals=internals, independent=True)
    agent.act([S, S], parallel=[0, 1])
    before = progress(agent)
    given = {"reward": [1.0, 1.0], "terminal": [1, 1], "parallel": [0, 1], **wrong}
    assert refused(agent.observe, **given).argument == argument
    assert progress(agent) == before
    assert agent.observe([1.0, 1.0], parallel=[0, 1]) == 0  # no lane ends by default


@pytest.mark.usefixtures("unconverted")
def test_refused_updates_and_queries_leave_training_as_it_is() -> None:
    """A horizon for one call that nothing stored suffices for; and asking does not draw from random parameters."""
    drawn = dict(type="random", distribution="uniform", minval=0.5, maxval=1.0)
    given: dict[str, Any] = dict(
        update=2,
        optimizer=dict(type="adam", learning_rate=drawn),
        reward_estimation=dict(horizon=0, discount=drawn),
        variable_noise=0.5,
    )
    agents = [generic(**given, max_episode_timesteps=20) for _ in range(2)]
    for number, agent in enumerate(agents):
        for t in range(6):
            asked: dict[str, Any] = dict(query=["discount", "learning-rate"]) if number else {}
            if number:
                assert agent.act(S, query="variable-noise")[1] == 0.5
            else:
                agent.act(S)
            updated = agent.observe(1.0, **asked)
            assert (updated[0] if number else updated) == (t in (2, 4))
            if number:
                assert refused(agent.update, horizon=50).argument == "update"
    names = agents[0].get_variables()
    assert all(np.array_equal(agents[0].get_variable(name), agents[1].get_variable(name)) for name in names)


def test_experience_is_no_longer_than_the_longest_episode(learner: Any) -> None:
    before = progress(learner)
    error = refused(learner.experience, [S] * 5, [0] * 5, [0, 0, 0, 0, 1], [1.0] * 5)
    assert error.argument == "Agent.experience: terminal"
    refused(learner.experience, [S] * 2, [0] * 2, [0, [1, 2]], [1.0] * 2)
    assert progress(learner) == before
    for _ in range(4):
        learner.experience(S, 0, False, 1.0)
    refused(learner.experience, S, 0, True, 1.0)
    learner.reset()
    assert not learner.fed.steps


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("traces") / "all"
    agent = make(recorder=dict(directory=str(folder)))
    for t in range(6):
        agent.act(S)
        agent.observe(1.0, terminal=t % 3 == 2)
    return folder


@pytest.mark.parametrize(
    "wrong",
    [
        dict(state=np.zeros((3, 2))),
        dict(reward=np.full(3, np.nan)),
        dict(action_mask=np.array([[False, True, True]] * 3), action=np.zeros(3, int)),
        None,
    ],
)
def test_one_wrong_trace_refuses_all_before_any_is_fed(learner: Any, traces: Path, tmp_path: Path, wrong: Any) -> None:
    shutil.copytree(traces, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "trace-00000009-20200101-000000.npz"
    with np.load(next(traces.iterdir())) as trace:
        np.savez(file, **{**trace, **(wrong or {})})
    if wrong is None:
        file.write_bytes(file.read_bytes()[:-9])
    before, drawn = progress(learner), learner.acting.rng.bit_generator.state
    with pytest.raises(TensorforceError, match="trace-00000009"):
        learner.pretrain(str(tmp_path), 1, num_traces=1)
    assert (progress(learner), learner.acting.rng.bit_generator.state) == (before, drawn)


def test_agents_that_cannot_be_made(tmp_path: Path) -> None:
    """Those without a model are checked, too; of one that exists, numbers are compared; no file opens itself."""
    for wrong in (dict(seed=-1), dict(parallel_interactions=0)):
        refused(make, **wrong)
    error = refused(Agent.create, make(), parallel_interactions="3")
    assert error.argument == "Agent.create: parallel_interactions"
    file = tmp_path / "agent.json"
    assert refused(make, str(file)).argument == "Agent.create: agent"
    file.write_text(json.dumps(dict(agent=str(file))))
    assert refused(make, str(file)).argument == "Agent.create: agent"


def test_no_action_is_drawn_from_what_is_not_finite() -> None:
    """Of NaN the first action would be chosen, also where the mask forbids it."""
    chooser = Chooser(read_values("test", dict(type="int", num_values=2), "actions"), {"action": "categorical"})
    logits, mask = np.array([[0.5, np.nan]], np.float32), np.array([[False, True]])
    for level in (0.0, 1.0):
        levels = Levels({"action": level}, {"action": 0.0})
        with pytest.raises(NonFiniteError) as caught:
            chooser(Acted({"logits/action": logits}, {"action_mask": mask}, levels), np.random.default_rng(0))
        assert str(caught.value) == "predictions['logits/action'] has NaN or infinity: [[0.5, nan]]"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(actions=dict(num_values=2)), "actions needs a type, one of bool, int, float; got {'num_values': 2}"),
        (
            dict(states=dict(num_values=2)),
            "states needs a shape, such as (4,) or () for a number; got {'num_values': 2}",
        ),
        (dict(states=dict(type=["int"], shape=2)), "states has the type ['int']; it must be bool, int or float"),
        (
            dict(states=dict(a=dict(type=float, shape=2))),
            "states['a'] has the type <class 'float'>; it must be bool, int or float",
        ),
        (dict(states=dict(a=3)), "states['a'] must be a dictionary, such as dict(type='float', shape=(4,)); got 3"),
    ],
)
def test_incomplete_specifications_say_what_they_lack(wrong: dict[str, Any], message: str) -> None:
    assert str(refused(make, **wrong)) == f"RandomAgent: {message}"


@pytest.mark.parametrize("one", [2, 2.0, np.float32(2), np.int64(2)])
def test_one_number_stands_for_all_components_of_a_constant_action(one: Any) -> None:
    agent = make("constant", actions=dict(type="float", shape=(2,)), action_values=one)
    assert agent.act(S).tolist() == [2.0, 2.0]


def test_an_environment_that_exists_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    world, closed = gymnasium.make("CartPole-v1"), list[int]()
    monkeypatch.setattr(world, "close", lambda: closed.append(1))
    Agent.create("random", environment=world)
    assert closed == []
