"""What the tests of the Agent share: environments that count, a model of six weights, a memory and a hook that note.

TensorFlow is imported by the models: processes that step these environments need none.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl import Agent, EstimatorSpec, Modes, RunConfig
from axonrl.explorations import EpsilonGreedy, GaussianNoise
from axonrl.memories import ReplayMemory
from axonrl.run_dir.checkpoints import CheckpointStore

Reset = tuple[Any, dict[str, Any]]
Step = tuple[Any, Any, Any, Any, dict[str, Any]]


class Counting(gymnasium.Env[Any, Any]):
    """Observes (timestep, a number drawn from the seed), pays 1, 2, 3, ..., and ends after ``length`` timesteps.

    Args:
        length: of every episode.
        truncates: does it truncate rather than terminate?
        action_space: of the actions that it takes and ignores.
    """

    observation_space: Any = Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, length: int = 3, truncates: bool = False, action_space: Any = None) -> None:
        self.action_space = Discrete(2) if action_space is None else action_space
        self.length = length
        self.truncates = truncates
        self.timestep = 0
        self.seeds: list[int | None] = []
        """Of every reset."""
        self.actions: list[Any] = []
        """Of every step."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.timestep = 0
        self.mark = self.np_random.random()
        return self.observation(), {}

    def step(self, action: Any) -> Step:
        self.actions.append(action)
        self.timestep += 1
        ended = self.timestep == self.length
        return self.observation(), self.reward(), ended and not self.truncates, ended and self.truncates, {}

    def observation(self) -> Any:
        return np.array([self.timestep, self.mark], np.float32)

    def reward(self) -> Any:
        return float(self.timestep)


class Faulty(Counting):
    """Fails at a timestep (counted over all its episodes, from 1) in a way of the test's choosing."""

    def __init__(self, fault: Any, at: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.fault = fault
        self.at = at

    def step(self, action: Any) -> Step:
        step = super().step(action)
        if len(self.actions) != self.at:
            return step
        if isinstance(self.fault, BaseException):
            raise self.fault
        changed: Step = self.fault(*step)
        return changed


class Named(Counting):
    """Observes a Dict with a Box, and a Discrete that begins at 1."""

    observation_space = Dict({"t": Box(0, 9, (1,), np.float32), "kind": Discrete(3, start=1)})

    def observation(self) -> Any:
        return {"t": np.array([self.timestep], np.float32), "kind": 1 + self.timestep % 3}


class Interrupted(Counting):
    """Ctrl-C reaches its process in the middle of the 9th timestep."""

    def step(self, action: Any) -> Step:
        if len(self.actions) == 8:
            raise KeyboardInterrupt
        return super().step(action)


class SelfResetting(SyncVectorEnv):
    """Any vector environment but a SyncVectorEnv itself, whose parts axonrl steps and resets."""


def vector(*envs: Counting, mode: AutoresetMode = AutoresetMode.DISABLED) -> SyncVectorEnv:
    def returning(env: Counting) -> Callable[[], Counting]:
        return lambda: env

    kind = SyncVectorEnv if mode is AutoresetMode.DISABLED else SelfResetting
    return kind([returning(env) for env in envs], autoreset_mode=mode)


def linear_model(features: Any, labels: Any, mode: str, params: Mapping[str, Any] | None = None) -> EstimatorSpec:
    """Q-learning with a matrix; ``params`` may give ``epsilon`` (0.5) and ``learning_rate`` (0.001)."""
    import tensorflow as tf

    params = params or {}
    weights = tf.Variable(tf.random.stateless_uniform((features.shape[-1], 2), (1, 2)), name="weights")
    values = tf.matmul(features, weights)  # [B, 2]
    if mode == Modes.PREDICT:
        action = tf.argmax(values, axis=1, output_type=tf.int32)
        exploration = EpsilonGreedy(params.get("epsilon", 0.5), Discrete(2))
        return EstimatorSpec(mode, {"action": action, "values": values}, exploration=exploration)
    following = tf.reduce_max(tf.matmul(labels["next_observation"], weights), axis=1)
    target = tf.stop_gradient(labels["reward"] + labels["discount"] * following)
    td_error = target - tf.reduce_sum(values * tf.one_hot(labels["action"], 2), axis=1)
    loss = tf.reduce_mean(td_error**2)
    gradient = tf.gradients(loss, weights)[0]
    train_op = weights.assign_sub(params.get("learning_rate", 0.001) * gradient)
    return EstimatorSpec(mode, loss=loss, train_op=train_op, td_error=td_error, metrics={"target": target[0]})


def aiming_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """For Box actions [2] in -1 .. 1: it goes towards (3, 3), with noise, and so beyond the bounds."""
    import tensorflow as tf

    place = tf.Variable(tf.fill((2,), 3.0), name="place")
    if mode == Modes.PREDICT:
        action = tf.zeros_like(features[:, :1]) + place
        return EstimatorSpec(mode, {"action": action}, exploration=GaussianNoise(0.5, Box(-1, 1, (2,), np.float32)))
    loss = tf.reduce_mean((labels["action"] - place) ** 2)
    return EstimatorSpec(mode, loss=loss, train_op=place.assign_sub(0.1 * tf.gradients(loss, place)[0]))


def rollout_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """One number, which learns from the rewards of batches of any shape; it always does 0."""
    import tensorflow as tf

    weight = tf.Variable(1.0)
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {"action": tf.cast(0.0 * weight * features[:, 0], tf.int32)})
    loss = weight * tf.reduce_mean(labels["reward"])
    return EstimatorSpec(mode, loss=loss, train_op=weight.assign_sub(tf.gradients(loss, weight)[0]))


def agent(model_dir: Path, memory: Any = None, model: Any = linear_model, params: Any = None, **config: Any) -> Agent:
    """An Agent with seed 0 and no checkpoints but the first and the last."""
    memory = ReplayMemory(1000, 4) if memory is None else memory
    return Agent(
        model,
        memory,
        model_dir,
        RunConfig(**{"seed": 0, "save_checkpoints_secs": None, "progress": False, **config}),
        params,
    )


class ListMemory:
    """The least that a memory may be: what the contract names, and nothing else. Notes every call.

    Args:
        batch_size: of a batch: the newest transitions.
        is_rollout: is it to be sampled when it holds a batch, and then cleared?
    """

    def __init__(self, batch_size: int = 2, is_rollout: bool = False) -> None:
        self.batch_size = batch_size
        self.is_rollout = is_rollout
        self.calls: list[str] = []
        self.rows: list[dict[str, Any]] = []
        """The transitions that it holds."""
        self.td_errors: list[Any] = []
        self.ever = 0
        """Timesteps stored so far."""
        self.sampled_at: list[int] = []
        """``ever`` at each sample."""

    def build(self, specs: Mapping[str, Any], num_envs: int, rng: np.random.Generator) -> None:
        self.calls.append("build")
        self.specs, self.num_envs = dict(specs), num_envs

    def step(self, **transition: Any) -> None:
        self.calls.append("step")
        self.rows.append(transition)
        self.ever += 1

    def extend(self, mask: Any = None, /, **batch: Any) -> None:
        self.calls.append("extend")
        for i in range(self.num_envs) if mask is None else np.flatnonzero(mask):
            self.rows.append({key: _row(value, i) for key, value in batch.items()})
            self.ever += 1

    def can_sample(self, count: int | None = None) -> bool:
        return (len(self.rows) if count is None else count) >= self.batch_size

    def sample(self) -> dict[str, Any]:
        self.calls.append("sample")
        self.sampled_at.append(self.ever)
        newest = self.rows[-self.batch_size :]
        batch = {key: _stack([row[key] for row in newest], self.specs[key]) for key in self.specs}
        return {**batch, "discount": (1 - batch["terminated"]).astype(np.float32)}

    def update_priorities(self, td_error: Any) -> None:
        self.calls.append("update_priorities")
        self.td_errors.append(td_error)

    def clear(self) -> None:
        self.calls.append("clear")
        self.rows.clear()

    def __len__(self) -> int:
        return len(self.rows)

    def state_dict(self) -> dict[str, Any]:
        keys = self.specs if self.rows else ()
        return {"ever": self.ever, **{key: _stack([row[key] for row in self.rows], self.specs[key]) for key in keys}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.ever = state["ever"]
        count = len(state["reward"]) if "reward" in state else 0
        self.rows = [{key: _row(state[key], i) for key in self.specs} for i in range(count)]


def _row(value: Any, i: Any) -> Any:
    return {key: part[i] for key, part in value.items()} if isinstance(value, Mapping) else value[i]


def _stack(values: Sequence[Any], spec: Any) -> Any:
    if isinstance(spec, Mapping):
        return {key: _stack([value[key] for value in values], spec[key]) for key in spec}
    dtype = np.float32 if spec.dtype == np.bool_ else spec.dtype
    return np.stack(values).astype(dtype)


class Notes:
    """A hook that notes every event with the counters at that time."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.facts: dict[str, list[Any]] = {}

    def _note(self, event: str, session: Any, facts: Any, *more: Any) -> None:
        self.events.append((event, *more, session.global_timestep, session.global_step, session.global_episode))
        self.facts.setdefault(event, []).append(facts)

    def begin(self, session: Any, facts: Any) -> None:
        self._note("begin", session, facts)

    def before_episode(self, session: Any, facts: Any) -> None:
        self._note("before_episode", session, facts, facts.environment)

    def after_timestep(self, session: Any, facts: Any) -> None:
        self._note("after_timestep", session, facts)

    def after_update(self, session: Any, facts: Any) -> None:
        self._note("after_update", session, facts)

    def after_episode(self, session: Any, facts: Any) -> None:
        self._note("after_episode", session, facts, facts.environment)

    def after_evaluation(self, session: Any, facts: Any) -> None:
        self._note("after_evaluation", session, facts)

    def end(self, session: Any, facts: Any) -> None:
        self._note("end", session, facts)

    @property
    def update_timesteps(self) -> list[int]:
        """``global_timestep`` of every update."""
        return [event[1] for event in self.events if event[0] == "after_update"]


class At:
    """A hook that calls ``action(session)`` once, in an event, when ``global_timestep`` is at least ``when``."""

    def __init__(self, event: str, when: int, action: Any) -> None:
        self._action = action
        self._when = when
        setattr(self, event, self._call)

    def _call(self, session: Any, facts: Any) -> None:
        if self._action is not None and session.global_timestep >= self._when:
            action, self._action = self._action, None
            action(session)


def failing(text: str) -> Callable[[Any], None]:
    def fail(session: Any) -> None:
        raise RuntimeError(text)

    return fail


def record(model_dir: Path) -> dict[str, Any]:
    return dict(json.loads((model_dir / "run.json").read_text()))


def saved(model_dir: Path) -> list[tuple[int, int, int]]:
    """The counters of every checkpoint that is kept, oldest first: timestep, step, episode."""
    manifests = sorted(model_dir.glob("checkpoints/checkpoint-*/manifest.json"))
    counters = [json.loads(path.read_text())["counters"] for path in manifests]
    return [(c["global_timestep"], c["global_step"], c["global_episode"]) for c in counters]


def snapshot(model_dir: Path) -> dict[str, Any]:
    """The newest checkpoint, without what measures seconds."""
    loaded = CheckpointStore(model_dir).load()
    assert loaded is not None
    state = dict(loaded[1])
    state["episodes"] = {key: value for key, value in state["episodes"].items() if key != "seconds"}
    return state


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Where two states differ, to the last bit, types included."""
    if type(a) is not type(b):
        return [path]
    if isinstance(a, Mapping):
        keys = sorted({*a, *b})
        return [where for key in keys for where in differences(a.get(key), b.get(key), f"{path}/{key}")]
    if isinstance(a, list) and len(a) == len(b):
        return [where for i, pair in enumerate(zip(a, b, strict=True)) for where in differences(*pair, f"{path}[{i}]")]
    if isinstance(a, (np.ndarray, np.generic)):
        same = (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    else:
        same = repr(a) == repr(b)
    return [] if same else [path]


class Lazily(dict[str, Any]):
    """Makes what is asked for, once: a conversion takes seconds."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Any:
        self[name] = self._make(name)
        return self[name]
