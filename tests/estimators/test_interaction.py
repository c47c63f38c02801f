"""interact: the caller owns the loop."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Discrete

from axonrl.core.protocols import EstimatorSpec
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.estimators.interaction import Interaction
from axonrl.memories import ReplayMemory
from axonrl.run_dir.generators import episode_seed
from axonrl.tests.estimators.fakes import At, Counting, ListMemory, Notes, agent, differences, saved, snapshot, vector
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

SPACES = Counting.observation_space, Discrete(2)


class Driver:
    """A caller with one environment, which it resets with the seeds that ``train`` would use."""

    def __init__(self, env: Any, interaction: Interaction, lane: int = 0) -> None:
        self.env, self.interaction, self.lane = env, interaction, lane
        self.episode = 0
        self.observation: Any = None
        self.actions: list[Any] = []

    def act(self) -> None:
        if self.observation is None:
            self.observation, _ = self.env.reset(seed=episode_seed(0, self.lane, self.episode))
            self.episode += 1
        self.action = self.interaction.act(self.observation, self.lane)
        self.actions.append(self.action)

    def observe(self) -> None:
        following, reward, terminated, truncated, _ = self.env.step(self.action)
        self.interaction.observe(reward, terminated, truncated, following, self.lane)
        self.observation = None if terminated or truncated else following

    def timesteps(self, count: int) -> None:
        for _ in range(count):
            self.act()
            self.observe()


def test_one_lane_trains_as_train_does(tmp_path: Path) -> None:
    inside, outside = Notes(), Notes()
    agent(tmp_path / "train").train("CartPole-v1", 20, 3, timesteps=120, hooks=[inside])
    env: Any = gymnasium.make("CartPole-v1")
    one = agent(tmp_path / "interact")
    spaces = env.observation_space, env.action_space
    with one.interact(*spaces, first_update=20, update_frequency=3, hooks=[outside]) as interaction:
        driver = Driver(env, interaction)
        driver.timesteps(120)
    assert differences(snapshot(tmp_path / "train")["weights"], snapshot(tmp_path / "interact")["weights"]) == []
    assert inside.events == outside.events
    assert type(driver.actions[0]) is np.int64
    assert saved(tmp_path / "interact")[-1] == saved(tmp_path / "train")[-1]


def test_all_lanes_in_one_call_are_a_vector_step(tmp_path: Path) -> None:
    agent(tmp_path / "train").train(vector(Counting(2), Counting(3)), 8, 3, timesteps=40)
    envs = Counting(2), Counting(3)
    seeds = [iter([episode_seed(0, lane, k) for k in range(20)]) for lane in (0, 1)]
    observations = [env.reset(seed=next(seed))[0] for env, seed in zip(envs, seeds, strict=True)]
    one = agent(tmp_path / "interact")
    with one.interact(*SPACES, lanes=2, first_update=8, update_frequency=3) as interaction:
        for _ in range(20):
            actions = interaction.act(np.stack(observations), lanes=[0, 1])
            steps: list[Any] = [env.step(action) for env, action in zip(envs, actions, strict=True)]
            following, reward, terminated, truncated = (np.stack([s[i] for s in steps]) for i in range(4))
            interaction.observe(reward, terminated, truncated, following, lanes=[0, 1])
            observations = [
                env.reset(seed=next(seed))[0] if ended else observation
                for env, seed, ended, observation in zip(envs, seeds, terminated, following, strict=True)
            ]
    whole, driven = snapshot(tmp_path / "train"), snapshot(tmp_path / "interact")
    assert driven["counters"] == {"global_step": 11, "global_timestep": 40, "global_episode": 16}
    assert differences(whole["weights"], driven["weights"]) == []


def test_lanes_advance_at_their_own_rates(tmp_path: Path) -> None:
    memory, notes = ListMemory(2), Notes()
    one = agent(tmp_path, memory)
    with one.interact(*SPACES, lanes=3, first_update=4, update_frequency=3, hooks=[notes]) as interaction:
        fast, slow = Driver(Counting(2), interaction, 0), Driver(Counting(3), interaction, 2)
        slow.act()
        fast.timesteps(3)
        slow.observe()  # one timestep of this lane, begun before three of the other
        slow.timesteps(2)
    # ListMemory keeps the rows in the order in which they came: lane 0 observes 0, 1, 0 and lane 2 observes 0, 1, 2.
    assert [float(row["observation"][0]) for row in memory.rows] == [0, 1, 0, 0, 1, 2]
    assert [float(row["reward"]) for row in memory.rows] == [1, 2, 1, 1, 2, 3]
    assert [bool(row["terminated"]) for row in memory.rows] == [False, True, False, False, False, True]
    assert [event[:2] for event in notes.events if event[0] in ("before_episode", "after_episode")] == [
        ("before_episode", 2),
        ("before_episode", 0),
        ("after_episode", 0),
        ("before_episode", 0),
        ("after_episode", 2),
    ]
    assert [(s.environment, s.episode_return, s.length) for s in notes.facts["after_episode"]] == [(0, 3, 2), (2, 6, 3)]
    assert notes.update_timesteps == [4]
    assert one.global_timestep == 6


class Counts:
    """Explores by counting the timesteps of each lane's episode; ``extras`` tell the action."""

    def __init__(self) -> None:
        self.counts: Any = np.zeros(0)

    def __call__(self, predictions: Any, timestep: int, rng: np.random.Generator) -> Any:
        return self.act_for(predictions, timestep, rng, np.arange(len(self.counts)))

    def act_for(self, predictions: Any, timestep: int, rng: np.random.Generator, lanes: Any) -> Any:
        self.counts[lanes] += 1
        return predictions["action"] + self.counts[lanes, None].astype(np.float32), {}

    def reset(self, mask: Any) -> None:
        self.counts = np.zeros(len(mask)) if len(self.counts) != len(mask) else self.counts
        self.counts[mask] = 10 * np.flatnonzero(mask)


def counting_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    bias = tf.Variable(0.0, name="bias")
    if mode == "predict":
        return EstimatorSpec(mode, {"action": 0 * features[:, :1] + bias}, exploration=Counts())
    loss = tf.reduce_mean((bias - 1.0) ** 2)
    return EstimatorSpec(mode, loss=loss, train_op=bias.assign_sub(0.1 * tf.gradients(loss, bias)[0]))


def test_an_exploration_with_a_state_acts_for_some_lanes(tmp_path: Path) -> None:
    box = Box(-99, 99, (1,), np.float32)
    one = agent(tmp_path, ListMemory(2), counting_model)
    with one.interact(Counting.observation_space, box, lanes=3, first_update=999) as interaction:

        def act(*lanes: int, ends: bool = False) -> list[float]:
            zeros = np.zeros((len(lanes), 2), np.float32)
            actions = interaction.act(zeros, lanes=lanes)
            no, yes = np.zeros(len(lanes), np.bool_), np.full(len(lanes), ends)
            interaction.observe(np.zeros(len(lanes)), yes, no, zeros, lanes=lanes)
            return [float(action) for action in actions[:, 0]]

        assert act(1) == [11]
        assert act(2, 1) == [21, 12]
        assert act(2, ends=True) == [22]
        assert act(1, 2, 0) == [13, 21, 1]  # all, in another order
        assert act(0, 1, 2) == [2, 14, 22]


class Buffered:
    """Explores by counting its calls, and returns the same array each time."""

    def __init__(self) -> None:
        self.buffer = np.zeros((1, 1), np.float32)

    def __call__(self, predictions: Any, timestep: int, rng: np.random.Generator) -> Any:
        self.buffer += 1
        return self.buffer, {}


def test_an_action_is_stored_as_it_was_given_to_the_caller(tmp_path: Path) -> None:
    def buffered_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = counting_model(features, labels, mode)
        return dataclasses.replace(spec, exploration=Buffered()) if mode == "predict" else spec

    memory, spaces = ListMemory(9), (Counting.observation_space, Box(-99, 99, (1,), np.float32))
    with agent(tmp_path, memory, buffered_model).interact(*spaces, lanes=2) as interaction:
        given = [interaction.act(np.zeros(2), lane).tolist() for lane in (0, 1)]
        for lane in (0, 1):
            interaction.observe(0.0, False, False, np.zeros(2), lane)
    assert [row["action"].tolist() for row in memory.rows] == given == [[1], [2]]


def calls(interaction: Interaction, first: int, last: int) -> list[Any]:
    """Calls that follow from their number alone: lane 1 acts at every third one and waits in between."""
    actions = []
    for k in range(first, last):
        if k % 3 == 0:
            actions.append(int(interaction.act(np.array([k, 0.5], np.float32), 1)))
        actions.append(int(interaction.act(np.array([k, 0.25], np.float32))))
        interaction.observe(float(k), k % 5 == 4, False, np.array([k + 1, 0.25], np.float32))
        if k % 3 == 2:
            interaction.observe(-float(k), False, False, np.array([k + 1, 0.5], np.float32), 1)
    return actions


def test_a_killed_process_continues_from_the_calls_after_its_last_checkpoint(tmp_path: Path) -> None:
    """At the checkpoint lane 0 is in the middle of an episode, and lane 1 has an action in flight."""
    settings: dict[str, Any] = {"lanes": 2, "first_update": 8, "update_frequency": 2}
    with agent(tmp_path / "whole").interact(*SPACES, **settings) as interaction:
        calls(interaction, 0, 17)
        interaction.session.save_checkpoint()
        shutil.copytree(tmp_path / "whole", tmp_path / "killed", ignore=shutil.ignore_patterns("lock*"))
        expected = calls(interaction, 17, 40)
    with agent(tmp_path / "killed").interact(*SPACES, **settings) as interaction:
        assert calls(interaction, 17, 40) == expected
    whole, killed = snapshot(tmp_path / "whole"), snapshot(tmp_path / "killed")
    assert differences(whole, killed) == []
    assert whole["episodes"]["running"].tolist() == [False, False]


def test_an_answer_to_an_action_that_a_checkpoint_cut_is_ignored(tmp_path: Path) -> None:
    memory = ListMemory(2)
    with agent(tmp_path, memory).interact(*SPACES, lanes=2) as interaction:
        interaction.act(np.zeros(2), 1)
        interaction.session.save_checkpoint()
        interaction.observe(1.0, False, False, np.ones(2), 1)
        assert len(memory.rows) == 0
        with pytest.raises(ArgumentError, match="lane 1 has no pending action"):
            interaction.observe(1.0, False, False, np.ones(2), 1)
        interaction.act(np.zeros(2), 1)
        interaction.observe(2.0, False, False, np.ones(2), 1)
    assert [row["reward"] for row in memory.rows] == [2.0]


def test_an_episode_that_a_checkpoint_cut_ends_in_the_memory_too(tmp_path: Path) -> None:
    """The observations are all equal, so they do not tell where an episode begins."""
    memory = ReplayMemory(10, 1, n_step=3, discount=0.5)
    with agent(tmp_path, memory).interact(*SPACES) as interaction:
        for timestep in range(4):
            if timestep == 2:
                interaction.session.save_checkpoint()
            interaction.act(np.zeros(2))
            interaction.observe(1.0, False, False, np.zeros(2))
        assert [memory.get_by_index(k)["truncated"] for k in range(4)] == [0, 1, 0, 0]
        batch: Any = memory.draw(50)
        returns = zip(batch["reward"].tolist(), batch["discount"].tolist(), strict=True)
        assert set(returns) == {(1.5, 0.25), (1.0, 0.5)}  # from the timesteps 0 and 1


def test_the_order_of_calls_is_checked_for_each_lane(tmp_path: Path) -> None:
    with agent(tmp_path, ListMemory(2)).interact(*SPACES, lanes=2) as interaction:
        interaction.act(np.zeros(2), 1)
        with pytest.raises(ArgumentError, match="lane 1 has a pending action: call observe") as error:
            interaction.act(np.zeros((2, 2)), lanes=[0, 1])
        assert (error.value.argument, error.value.value) == ("lane", 1)
        with pytest.raises(ArgumentError, match="lane 0 has no pending action: call act") as error:
            interaction.observe(0.0, False, False, np.zeros(2))
        assert (error.value.argument, error.value.value) == ("lane", 0)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda i: i.act(np.zeros(2), 2), "lane"),
        (lambda i: i.act(np.zeros((2, 2)), lanes=[0, 0]), "lanes"),
        (lambda i: i.act(np.zeros((1, 2)), lanes=0), "lanes"),
        (lambda i: i.act(np.zeros(3)), "observation"),
        (lambda i: i.observe("1", False, False, np.zeros(2), 1), "reward"),
        (lambda i: i.observe(1.0, 0, False, np.zeros(2), 1), "terminated"),
    ],
)
def test_wrong_values_change_nothing(call: Any, argument: str, session: Interaction) -> None:
    before = session.session.global_timestep
    assert raised(ArgumentError, call, session).argument == argument
    assert session.session.global_timestep == before


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two lanes; the second has an action in flight."""
    one = agent(tmp_path_factory.mktemp("run"), ListMemory(2))
    with one.interact(*SPACES, lanes=2) as interaction:
        interaction.act(np.zeros(2), 1)
        yield interaction


def test_what_is_not_finite_is_refused(session: Interaction) -> None:
    raised(NonFiniteError, session.act, np.array([np.nan, 0.0]), match="observation that is NaN")
    raised(NonFiniteError, session.observe, np.nan, False, False, np.zeros(2), 1, match="the reward nan")
    message = (
        r"the reward 1e\+300, beyond what float32 holds .* \(lane 1, timestep 0 of its episode; global_timestep 0\)"
    )
    raised(NonFiniteError, session.observe, 1e300, False, False, np.zeros(2), 1, match=message)
    raised(ArgumentError, session.observe, 10**400, False, False, np.zeros(2), 1, match="reward must be a number")


def test_hooks_stop_and_save_as_in_train(tmp_path: Path) -> None:
    asked = At("after_timestep", 3, lambda session: session.request_stop("enough"))
    saves = At("after_timestep", 2, lambda session: session.save_checkpoint())
    one = agent(tmp_path)
    with one.interact(*SPACES, hooks=[asked, saves]) as interaction:
        driver = Driver(Counting(), interaction)
        while interaction.session.stop_reason is None:
            driver.timesteps(1)
    assert one.global_timestep == 3
    assert saved(tmp_path) == [(0, 0, 0), (2, 0, 0), (3, 0, 1)]


def test_a_closed_session_refuses_what_would_not_be_saved(tmp_path: Path) -> None:
    one, opening = agent(tmp_path), Counting()
    with one.interact(*SPACES) as interaction:
        driver = Driver(Counting(), interaction)
        driver.timesteps(2)
        observation = Counting().reset()[0]
        interaction.act(observation)
    with one.session(opening) as session:
        pass
    answers = [lambda: interaction.observe(1.0, False, False, observation), lambda: driver.timesteps(1)]
    calls = [*answers, interaction.session.save_checkpoint, session.run_episode]
    for call in (*calls, session.save_checkpoint):
        raised(ValueError, call, match="this session is closed")
    assert one.global_timestep == 2
    assert saved(tmp_path) == [(0, 0, 0), (2, 0, 0)]
