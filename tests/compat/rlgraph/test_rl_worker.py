"""The worker of RLgraph's interface."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest

from axonrl.compat.rlgraph import Environment, GridWorld, RandomAgent, RLGraphWarning, SingleThreadedWorker
from axonrl.compat.rlgraph.spaces import Dict, FloatBox, IntBox

from .agents import make_dqn, refused

RIGHT, DOWN = 1, 2
NO_UPDATES: Final = {"do_updates": False}


class Corridor(Environment):
    """States 10, 11, 12, ... of the first episode, 20, 21, ... of the second; rewards 1, 2, 3, ...

    Args:
        ends: of each episode in turn its length; negative: its time is up then.
    """

    def __init__(self, *ends: int, state_space: Any = None) -> None:
        super().__init__(FloatBox(shape=(1,)) if state_space is None else state_space, IntBox(2))
        self._ends = itertools.cycle(ends)
        self._episode = self._steps = 0
        self._state = np.zeros(1, np.float32)
        self.actions: list[Any] = []

    def reset(self) -> Any:
        self._episode, self._steps, self._end = self._episode + 1, 0, next(self._ends)
        return self._seen()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any]:
        self.actions.append(actions)
        self._steps += 1
        ended = self._steps == abs(self._end)
        return self._seen(), float(self._steps), ended, {"truncated": ended and self._end < 0}

    def _seen(self) -> Any:
        self._state[:] = 10 * self._episode + self._steps  # the same array always
        return {"x": self._state} if isinstance(self.state_space, Dict) else self._state


class Recorder(RandomAgent):
    def __init__(self, env: Environment, **kwargs: Any) -> None:
        super().__init__(state_space=env.state_space, action_space=env.action_space, **kwargs)
        self.acted: list[Any] = []
        self.told: list[Any] = []
        self.updated: list[int] = []
        self.ready_at = 0

    def get_action(self, states: Any, *args: Any, **kwargs: Any) -> Any:
        self.acted.append(_plain(states))
        return super().get_action(states, *args, **kwargs)

    def observe(self, *args: Any, **kwargs: Any) -> None:
        super().observe(*args, **kwargs)
        record = [_plain(kwargs[name]) for name in ("preprocessed_states", "rewards", "next_states", "terminals")]
        self.told.append((kwargs["env_id"], *record))

    def flush_env_buffers(self, env_id: str | None = None) -> None:
        super().flush_env_buffers(env_id)
        self.told.append((env_id, "cut"))

    @property
    def can_update(self) -> bool:
        return self.timesteps >= self.ready_at

    def update(self, batch: Any = None) -> None:
        self.updated.append(self.timesteps)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _worker(env: Any, make: Any = None, **kwargs: Any) -> tuple[SingleThreadedWorker, Recorder]:
    """A worker whose agent has no updates, unless it is said otherwise."""
    own = kwargs.pop("agent_kwargs", {"update_spec": NO_UPDATES})
    agent = Recorder(env, execution_spec={"seed": 1}, **own)
    return SingleThreadedWorker(agent=agent, env_spec=make or env, **kwargs), agent


def test_it_learns_the_smallest_grid_world_and_entries_of_a_call_count_in_this_call() -> None:
    env = GridWorld("2x2")
    decay = {"from": 1.0, "to": 0.05, "num_timesteps": 800}
    agent = make_dqn(
        state_space=env.state_space,
        action_space=env.action_space,
        discount=0.95,
        network_spec=[{"type": "dense", "units": 32, "activation": "relu"}],
        memory_spec={"type": "replay", "capacity": 500},
        exploration_spec={"epsilon_spec": {"decay_spec": decay}},
        update_spec={"update_interval": 2, "batch_size": 32, "sync_interval": 16},
    )
    worker = SingleThreadedWorker(agent=agent, env_spec=lambda: env)
    result = worker.execute_timesteps(1500)
    assert set(result) == {
        *("runtime", "timesteps_executed", "ops_per_second", "env_frames", "env_frames_per_second"),
        *("episodes_executed", "episodes_per_minute", "mean_episode_runtime", "mean_episode_reward"),
        *("max_episode_reward", "final_episode_reward"),
    }
    assert result["timesteps_executed"] == result["env_frames"] == agent.timesteps == 1500
    assert result["max_episode_reward"] == 0  # down -1, right +1
    # Of the multiples of 2 those from 100 on, the buffer's size.
    assert agent.updates == 701
    assert [agent.get_action(state, use_exploration=False) for state in (0, 1)] == [DOWN, RIGHT]

    def target() -> Any:
        weights = agent.core.state_dict()["model"]["weights"]
        return np.concatenate([array.ravel() for name, array in weights.items() if "target-policy/" in name])

    before = target()
    worker.execute_timesteps(100, update_spec={"sync_interval": 10_000})
    assert (target() == before).all()
    worker.execute_timesteps(20, update_spec={"sync_interval": 2})
    assert (target() != before).any()
    with agent.updating("here", {"batch_size": 8}):
        loss = agent.update()
    assert loss is not None
    assert len(loss[1]) == 8
    error = refused(worker.execute_timesteps, 20, update_spec={"batch_size": 501})  # the memory has 500
    assert error.argument == "SingleThreadedWorker.execute_timesteps: update_spec['batch_size']"
    assert (agent.update_spec["sync_interval"], agent.update_spec["batch_size"]) == (16, 32)


@pytest.mark.parametrize(
    ("count", "update", "size", "timesteps", "expected"),
    [
        (3, {}, 1, 24, [6, 9, 12, 18, 21, 24]),  # every multiple that is passed
        (3, {"steps_before_update": 12, "update_steps": 2}, 1, 24, [18, 18, 21, 21, 24, 24]),
        (1, {"update_interval": 2}, 5, 8, [6, 8]),  # from buffer_size on
        (1, {"update_interval": 2, "update_mode": "episodes"}, 5, 40, [18, 36]),  # of 9 timesteps each
    ],
)
def test_updates_follow_the_timesteps(count: int, update: Any, size: int, timesteps: int, expected: Any) -> None:
    own = {"update_spec": update, "observe_spec": {"buffer_size": size}}
    worker, agent = _worker(Corridor(9), lambda: Corridor(9), num_envs=count, agent_kwargs=own)
    worker.execute_timesteps(timesteps)
    assert agent.updated == expected


def test_updates_follow_the_episodes_of_all_calls() -> None:
    own = {"update_spec": {"update_interval": 2, "update_mode": "episodes", "steps_before_update": 1}}
    worker, agent = _worker(Corridor(9), agent_kwargs=own)
    for _ in range(5):
        worker.execute_episodes(1)
    assert agent.updated == [18, 36]  # after the second and the fourth


def test_single_entries_of_update_spec_change_for_a_call() -> None:
    worker, agent = _worker(Corridor(9), agent_kwargs={"observe_spec": {"buffer_enabled": False}})
    worker.execute_timesteps(6, update_spec={"update_interval": 3})
    worker.execute_timesteps(6, update_spec=NO_UPDATES)
    worker.execute_timesteps(6)
    assert agent.updated == [3, 6, 16]
    assert (agent.update_spec["update_interval"], agent.update_spec["do_updates"]) == (4, True)
    agent.ready_at = 22  # what waits for a batch is not made up for
    worker.execute_timesteps(8)
    assert agent.updated == [3, 6, 16, 24]
    update = {"update_interval": 3, "sync_interval": 10}
    assert "'sync_interval'" in refused(worker.execute_timesteps, 6, update_spec=update).argument
    assert agent.timesteps == 26


def test_next_states_terminals_and_truncations() -> None:
    worker, agent = _worker(Corridor(2, -2))
    result = worker.execute_timesteps(5, max_timesteps_per_episode=3)
    worker.execute_timesteps(2, max_timesteps_per_episode=1, reset=False)
    assert agent.told == [
        ("env_0", "cut"),  # nothing: the first episode begins
        ("env_0", [10.0], 1.0, [11.0], False),
        ("env_0", [11.0], 2.0, [12.0], True),
        ("env_0", [20.0], 1.0, [21.0], False),
        ("env_0", [21.0], 2.0, [22.0], False),  # its time was up
        ("env_0", "cut"),
        ("env_0", [30.0], 1.0, [31.0], False),
        ("env_0", [31.0], 2.0, [32.0], True),  # goes on; terminal, though its timesteps are used up
        ("env_0", [40.0], 1.0, [41.0], False),  # cut by the worker
        ("env_0", "cut"),
    ]
    rewards = {name: result[f"{name}_episode_reward"] for name in ("mean", "max", "final")}
    assert (rewards, result["episodes_executed"]) == ({"mean": 3.0, "max": 3.0, "final": 3.0}, 2)


def test_reset_begins_episodes_and_cuts_the_running_ones() -> None:
    space = Dict(x=FloatBox(shape=(1,)))  # and what has parts
    worker, agent = _worker(Corridor(9, state_space=space))
    worker.execute_timesteps(1, reset=False)  # there is nothing to go on with
    worker.execute_timesteps(1)
    assert agent.told[1:] == [
        ("env_0", {"x": [10.0]}, 1.0, {"x": [11.0]}, False),
        ("env_0", "cut"),
        ("env_0", {"x": [20.0]}, 1.0, {"x": [21.0]}, False),
    ]


def test_several_environments_end_on_their_own() -> None:
    lengths = iter((3, 1, 2))
    vector = {"type": "sequential_vector_env", "num_envs": 3, "env_spec": lambda: Corridor(next(lengths))}
    worker, agent = _worker(Corridor(3), vector)
    result = worker.execute_episodes(2)
    assert worker.env_ids == ["env_0", "env_1", "env_2"]
    assert agent.acted == [[[10.0], [10.0], [10.0]], [[11.0], [20.0], [11.0]]]
    assert agent.told[3:6] == [
        ("env_0", [10.0], 1.0, [11.0], False),
        ("env_1", [10.0], 1.0, [11.0], True),
        ("env_2", [10.0], 1.0, [11.0], False),
    ]
    # The second step ends two episodes at once.
    assert (result["episodes_executed"], result["timesteps_executed"]) == (3, 6)
    assert (result["mean_episode_reward"], result["final_episode_reward"]) == (5 / 3, 3.0)  # 1, 1, 1 + 2
    environments: list[Any] = worker.vector_env.environments
    took = [env.actions for env in environments]
    assert all(action.shape == () and action.dtype == np.int32 for actions in took for action in actions)


def test_frames_repeat_actions_until_the_episode_ends() -> None:
    env = Corridor(5)
    worker, agent = _worker(env, frameskip=2)
    result = worker.execute_timesteps(3)
    assert [record[2] for record in agent.told[1:]] == [3.0, 7.0, 5.0]  # 1 + 2, 3 + 4, 5
    assert (result["timesteps_executed"], result["env_frames"], len(env.actions)) == (3, 5, 5)
    assert worker.execute_timesteps(3, frameskip=1)["env_frames"] == 3


SEQUENCE: Final = [{"type": "divide", "divisor": 10}, {"type": "sequence", "sequence_length": 2, "add_rank": False}]
SEEN: Final = [
    ("env_0", [1.0, 1.0], 1.0, [1.0, 1.1], False),
    ("env_1", [1.0, 1.0], 1.0, [1.0, 1.1], True),
    ("env_0", [1.0, 1.1], 2.0, [1.1, 1.2], False),
    ("env_1", [2.0, 2.0], 1.0, [2.0, 2.1], True),
    ("env_0", [1.1, 1.2], 3.0, [1.2, 1.3], False),
    ("env_1", [3.0, 3.0], 1.0, [3.0, 3.1], True),
]
"""Each environment remembers its own states, from the beginning of its episode."""


@pytest.mark.parametrize("by_worker", [False, True])
def test_states_and_next_states_are_preprocessed_alike(by_worker: bool) -> None:
    lengths = iter((4, 1))
    own = {"update_spec": NO_UPDATES, "preprocessing_spec": SEQUENCE}
    more = {"preprocessing_spec": SEQUENCE} if by_worker else {}
    worker, agent = _worker(Corridor(3), lambda: Corridor(next(lengths)), num_environments=2, agent_kwargs=own, **more)
    worker.execute_timesteps(6)
    told = [(name, np.round(a, 6).tolist(), r, np.round(b, 6).tolist(), t) for name, a, r, b, t in agent.told[2:]]
    assert told == SEEN
    assert np.round(agent.acted, 6).tolist() == [
        [[1.0, 1.0], [1.0, 1.0]],
        [[1.0, 1.1], [2.0, 2.0]],
        [[1.1, 1.2], [3.0, 3.0]],
    ]


def test_results_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(100.0)  # each look at it takes a second
    module = "axonrl.compat.rlgraph.execution.single_threaded_worker"
    monkeypatch.setattr(f"{module}.time.perf_counter", lambda: next(clock))
    episodes: list[Any] = []
    worker, _ = _worker(Corridor(2, 3), episode_finish_callback=lambda **given: episodes.append(given))
    # 100 start, 101 first episode, 102 its end, 103 second episode, 104 end of the call
    assert worker.execute_timesteps(3) == {
        "runtime": 4.0,
        "timesteps_executed": 3,
        "ops_per_second": 0.75,
        "env_frames": 3,
        "env_frames_per_second": 0.75,
        "episodes_executed": 1,
        "episodes_per_minute": 15.0,
        "mean_episode_runtime": 1.0,
        "mean_episode_reward": 3.0,
        "max_episode_reward": 3.0,
        "final_episode_reward": 3.0,
    }
    for _ in range(10):
        next(clock)  # time between calls
    assert (worker.finished_episode_rewards, worker.finished_episode_steps) == ([[3.0]], [[2]])
    assert worker.episode_returns == [0.0 + 1.0]
    running = worker.execute_timesteps(1, reset=False)  # 115 to 116
    assert (running["mean_episode_reward"], running["mean_episode_runtime"], running["runtime"]) == (3.0, 0, 1.0)
    worker.execute_timesteps(1, reset=False)  # 117, end of the episode 118
    assert episodes == [
        {"reward": 3.0, "duration": 1.0, "timesteps": 2, "env_num": 0, "episode_return": 3.0},
        # From 103; 104 to 115 and 116 to 117 are not its time.
        {"reward": 6.0, "duration": 3.0, "timesteps": 3, "env_num": 0, "episode_return": 6.0},
    ]


BYTES = Corridor(9, state_space=IntBox(256, shape=(1,), dtype="uint8"))


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"num_envs": 2}, "num_envs"),
        ({"num_envs": 1, "num_environments": 2}, "num_environments"),
        ({"worker_executes_preprocessing": True}, "worker_executes_preprocessing"),
        ({"preprocessing_spec": [{"type": "dvide"}]}, "preprocessing_spec[0]['type']"),
        ({"env_spec": Corridor(3, state_space=FloatBox(shape=(2,)))}, "env_spec"),
        ({"env_spec": Corridor(3, state_space=Dict(x=FloatBox(shape=(1,))))}, "env_spec"),
        ({"env_spec": BYTES, "agent": RandomAgent(IntBox(255, shape=(1,)), IntBox(2))}, "env_spec"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], argument: str) -> None:
    env = Corridor(3)
    error = refused(SingleThreadedWorker, **{"agent": Recorder(env), "env_spec": env, **given})
    assert (error.argument or "").removeprefix("SingleThreadedWorker: ") == argument


def test_states_that_are_declared_by_hand_take_bytes_of_the_same_range() -> None:
    worker = SingleThreadedWorker(agent=RandomAgent(IntBox(256, shape=(1,)), IntBox(2)), env_spec=BYTES)
    assert worker.execute_timesteps(3, update_spec=NO_UPDATES)["timesteps_executed"] == 3


@pytest.mark.parametrize(
    ("given", "argument"),
    [({"num_timesteps": 0}, "num_timesteps"), ({"num_timesteps": 1, "frameskip": 0}, "frameskip")],
)
def test_wrong_calls_run_nothing(given: dict[str, Any], argument: str) -> None:
    env = Corridor(3)
    worker, agent = _worker(env)
    error = refused(worker.execute_timesteps, **given)
    assert error.argument == f"SingleThreadedWorker.execute_timesteps: {argument}"
    agent.terminate()
    refused(worker.execute_episodes, 1)
    assert (agent.timesteps, agent.told, env.actions) == (0, [], [])


def test_preprocessing_that_nobody_does_is_warned_about() -> None:
    env = Corridor(3)
    given: Any = {"preprocessing_spec": [{"type": "divide", "divisor": 2}], "worker_executes_preprocessing": False}
    with pytest.warns(RLGraphWarning, match="preprocessing_spec") as warned:
        SingleThreadedWorker(agent=Recorder(env), env_spec=env, **given)
    assert [one.filename for one in warned] == [__file__]


def test_after_a_reset_that_failed_nothing_goes_on() -> None:
    env = Corridor(5)
    worker, _ = _worker(env)
    worker.execute_timesteps(2)
    begins, env.reset = env.reset, lambda: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        worker.execute_timesteps(1)
    env.reset = begins  # type: ignore[method-assign]
    assert worker.execute_timesteps(1, reset=False)["mean_episode_reward"] == worker._lanes[0].reward
    assert worker._lanes[0].timesteps == 1
