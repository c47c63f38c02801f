"""TrainingState: what a checkpoint holds, and how an environment is brought back to it."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl.core.protocols import ArraySpec
from axonrl.environments import make, open_environment
from axonrl.environments.batched import BatchedEnvironment
from axonrl.estimators.episodes import Episodes
from axonrl.estimators.limits import UpdateSchedule
from axonrl.estimators.state import TrainingState
from axonrl.estimators.stepper import Stepper
from axonrl.explorations import Greedy
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.policies.modes import PredictMode, TrainMode
from axonrl.run_dir.arrays import join_state, split_state
from axonrl.run_dir.generators import episode_seed, generators
from axonrl.run_dir.snapshot import Counters

ACTION = ArraySpec((), np.int32)
SPECS = {
    "observation": ArraySpec((2,), np.float32),
    "action": ACTION,
    "reward": ArraySpec((), np.float32),
    "terminated": ArraySpec((), np.bool_),
    "truncated": ArraySpec((), np.bool_),
    "next_observation": ArraySpec((2,), np.float32),
}


class Weights:
    """An executor that has nothing but weights."""

    name = "weights"

    def __init__(self, *names: str) -> None:
        self.weights = {name: np.zeros(2, np.float32) for name in names}

    def act(self, features: Any, draws: Any = ()) -> Any:
        raise NotImplementedError

    def train(self, batch: Any, counters: Any, draws: Any) -> Any:
        raise NotImplementedError

    def get_weights(self) -> dict[str, Any]:
        return {name: value.copy() for name, value in self.weights.items()}

    get_predict_weights = get_weights

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        self.weights.update(weights)


def fresh(num_envs: int = 2, names: tuple[str, ...] = ("kernel", "bias"), memory: Any = None) -> TrainingState:
    rngs = generators(7)
    memory = ReplayMemory(8, 2) if memory is None else memory
    memory.build(SPECS, num_envs, rngs["memory"])
    predict = PredictMode(exploration=Greedy(), record=(), state=None, outputs={}, not_exact=(), evaluation_hooks=())
    train = TrainMode(batch={}, metrics=(), noise=(), reads=frozenset())
    stepper = Stepper(predict, train, Weights(*names), memory, num_envs, rngs, UpdateSchedule(35, 10))
    return TrainingState(stepper, Episodes(num_envs, ACTION, 7))


def stored(state: Any) -> Any:
    return join_state(*split_state(state))


def fill(state: TrainingState) -> None:
    batch = {
        "observation": np.array([[0.0, 1.0], [2.0, 3.0]], np.float32),
        "action": np.array([0, 1], np.int32),
        "reward": np.array([1.5, 2.5]),
        "terminated": np.array([False, False]),
        "truncated": np.array([False, False]),
        "next_observation": np.array([[4.0, 5.0], [6.0, 7.0]], np.float32),
    }
    state.stepper.memory.extend(**batch)


def test_a_state_of_two_lanes_goes_on_in_three() -> None:
    """What belongs to a lane begins anew; all else is kept, and the memory has been dealt out."""
    state = fresh(memory=ReplayMemory(12, 2))
    fill(state)
    state.stepper.counters, state.stepper.pending_updates = Counters(11, 22, 33), 4
    state.episodes.begin(np.array([True, False]))
    state.episodes.begin(np.array([True, True]))
    state.observation = np.zeros((2, 2), np.float32)
    state.stepper.behaviour.recurrent = {"hidden": np.ones((2, 1), np.float32)}
    state.stepper.generators["exploration"].random(3)
    content = stored(state.state_dict())
    other = fresh(3, memory=ReplayMemory(12, 2))
    other.stepper.behaviour.recurrent = {"hidden": np.ones((3, 1), np.float32)}  # of a session before
    assert (other.load_state_dict(content), other.stepper.lanes) == (2, 3)
    assert (other.counters, other.stepper.pending_updates, len(other.stepper.memory)) == (Counters(11, 22, 33), 4, 2)
    assert other.stepper.behaviour.recurrent["hidden"].tolist() == [[0.0]] * 3
    assert (other.observation, other.episodes.running.tolist()) == (None, [False] * 3)
    assert other.episodes.begin(np.ones(3, np.bool_)) == [episode_seed(7, i, 2) for i in range(3)]  # none twice
    assert other.episodes.lengths.tolist() == [0, 0, 0]
    assert other.stepper.generators["exploration"].random() == state.stepper.generators["exploration"].random()


def test_another_memory_or_model_is_refused() -> None:
    content = fresh().state_dict()
    with pytest.raises(ValueError, match="the checkpoint holds a ReplayMemory, but the Agent has a BatchMemory"):
        fresh(memory=BatchMemory(4)).load_state_dict(content)
    with pytest.raises(ValueError, match="bias are only in the checkpoint, slot only in the model"):
        fresh(names=("kernel", "slot")).load_state_dict(content)
    with pytest.raises(ValueError, match="none are only in the checkpoint, slot only in the model"):
        fresh(names=("bias", "kernel", "slot")).load_state_dict(content)


def play(state: TrainingState, env: BatchedEnvironment, timesteps: int) -> list[Any]:
    """As the loop does; what was observed, and the rewards."""
    seen = []
    for t in range(timesteps):
        mask = ~state.episodes.running
        if mask.any():
            state.observation = env.reset(None if mask.all() else mask, state.episodes.begin(mask))
        actions = np.array([(t + i) % 2 for i in range(env.num_envs)], np.int32)
        step = env.step(actions)
        state.episodes.record(actions, step.reward, step.acted)
        state.observation = step.observation
        seen.append([np.asarray(step.observation).tolist(), step.reward.tolist()])
        for i in np.flatnonzero(step.terminated | step.truncated).tolist():
            state.episodes.finish(i, True, False, 0.0)
    return seen


def vector(one: Callable[[], Any]) -> BatchedEnvironment:
    return open_environment(SyncVectorEnv([one, one], autoreset_mode=AutoresetMode.DISABLED))


def cart() -> Any:
    return make("CartPole-v1", max_episode_steps=13)


class Disturbed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole disturbed by what no seed reaches."""

    def __init__(self, observation: float = 0.0, reward: float = 0.0, end: int | None = None) -> None:
        super().__init__(cart())
        self.observation, self.reward, self.end, self.count = observation, reward, end, 0

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.count += 1
        observation[0] += self.observation
        return observation, float(reward) + self.reward, terminated or self.count == self.end, truncated, info


@pytest.mark.parametrize(
    "disturbed",
    [lambda: Disturbed(observation=1e-6), lambda: Disturbed(reward=1e-6), lambda: Disturbed(end=6)],
    ids=["observation", "reward", "last end"],
)
def test_an_environment_that_does_not_repeat_is_noticed_and_goes_on(disturbed: Any) -> None:
    state, env = fresh(), vector(cart)
    state.bring_back(env)
    play(state, env, 6)
    state.load_state_dict(stored(state.state_dict()))
    other = vector(disturbed)
    assert state.bring_back(other) == "it does not repeat an episode from its seed and actions"
    assert len(play(state, other, 5)) == 5
    assert state.observation.shape == (2, 4)


def test_an_environment_that_resets_itself_begins_anew() -> None:
    env = open_environment(gymnasium.make_vec("CartPole-v1", 2))
    state = fresh()
    advice = "axonrl.environments.make('CartPole-v1', num_envs=2) would be exact"
    why = f"it resets itself (autoreset_mode NEXT_STEP); {advice}"
    assert state.bring_back(env) == why
    play(state, env, 5)
    assert state.episodes.running.all()
    assert state.bring_back(env) == why
    assert not state.episodes.running.any()
    assert state.episodes.index.tolist() == [1, 1]  # the next episodes have the next seeds
