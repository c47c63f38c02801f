"""Everything that a run's future follows from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contracts import Array, Exploration, Memory, State
from ..environments import statistics as wrappers
from ..environments.batched import BatchedEnvironment
from ..policies.executors import Executor
from .episodes import Episodes
from .failures import FAILURES


@dataclasses.dataclass
class Counters:
    """How far a run is."""

    global_step: int = 0
    global_timestep: int = 0
    global_episode: int = 0


@dataclasses.dataclass
class TrainingState:
    """The parts of a run that change while it trains. ``state_dict`` of all of them is a checkpoint.

    ``owed`` counts updates that are due and not yet run: ``steps`` is met exactly, also within a vector step.
    ``observation`` and ``recurrent`` [N, ...] are where the running episodes stand; ``statistics`` is what the
    wrappers of ``env`` had learnt when the state was saved; ``env`` is None until :meth:`bring_back`.
    """

    counters: Counters
    executor: Executor
    memory: Memory
    exploration: Exploration
    episodes: Episodes
    generators: dict[str, np.random.Generator]
    owed: int = 0
    observation: Any = None
    recurrent: dict[str, Array] | None = None
    hooks: State = dataclasses.field(default_factory=dict)
    statistics: State | None = None
    env: BatchedEnvironment | None = None

    def bring_back(self, env: BatchedEnvironment) -> str | None:
        """Make ``env`` stand where the running episodes do: replay them, or cut them where that leads nowhere.

        Returns:
            Why the run does not resume exactly in this environment; None if it does.

        Raises:
            ValueError: its wrappers are not those whose statistics were saved.
        """
        if self.statistics is None:
            self.statistics = wrappers.statistics_of(env.env)
        self.env = env
        running = self.episodes.running
        with wrappers.frozen(env.env, self.statistics):
            if env.not_exact is not None:
                self.episodes.cut()
                return env.not_exact
            if not running.any():
                return None
            try:
                observation, returns = self.episodes.replay(env)
            except FAILURES as error:
                self.episodes.cut()
                return f"its running episodes cannot be replayed, and were cut: {error}"
        same_rewards = bool(self.statistics) or np.array_equal(returns[running], self.episodes.returns[running])
        reproduced = same_rewards and _rows_equal(observation, self.observation, running)
        self.observation = observation
        return None if reproduced else "it does not repeat an episode from its seed and actions"

    def reset_recurrent(self, mask: Array) -> None:
        """Recurrent state is zero where ``mask`` [N]: an episode begins."""
        if self.recurrent is not None:
            self.recurrent = {k: zero_rows(v, mask) for k, v in self.recurrent.items()}

    def state_dict(self) -> State:
        """A checkpoint's content."""
        if self.env is not None:
            self.statistics = wrappers.statistics_of(self.env.env)
        running = bool(self.episodes.running.any())
        return {
            "counters": dataclasses.asdict(self.counters),
            "owed": self.owed,
            "weights": self.executor.get_weights(),
            "memory": {"kind": type(self.memory).__name__, "state": self.memory.state_dict()},
            "exploration": self.exploration.state_dict() if hasattr(self.exploration, "state_dict") else {},
            "episodes": self.episodes.state_dict(),
            "observation": _as_mapping(self.observation) if running else {},
            "recurrent": self.recurrent or {},
            "generators": {name: rng.bit_generator.state for name, rng in self.generators.items()},
            "hooks": self.hooks,
            "statistics": self.statistics,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a checkpoint.

        Raises:
            ValueError: it is another model's or another memory's.
        """
        kind = type(self.memory).__name__
        if state["memory"]["kind"] != kind:
            raise ValueError(f"the checkpoint holds a {state['memory']['kind']}, the Agent was given a {kind}")
        had, has = set(state["weights"]), set(self.executor.get_weights())
        if had != has:
            raise ValueError(
                f"its variables are other ones: {', '.join(sorted(had - has)) or 'none'} are only in the checkpoint,"
                f" {', '.join(sorted(has - had)) or 'none'} only in the model"
            )
        self.executor.set_weights(state["weights"])
        self.memory.load_state_dict(state["memory"]["state"])
        if hasattr(self.exploration, "load_state_dict"):
            self.exploration.load_state_dict(state["exploration"])
        self.counters = Counters(**state["counters"])
        self.owed = state["owed"]
        self.episodes.load_state_dict(state["episodes"])
        self.observation = _from_mapping(state["observation"])
        self.recurrent = dict(state["recurrent"]) or None
        for name, generator_state in state["generators"].items():
            self.generators[name].bit_generator.state = generator_state
        self.hooks = state["hooks"]
        self.statistics = state["statistics"]


def _as_mapping(observation: Any) -> dict[str, Any]:
    return {"tree": dict(observation)} if isinstance(observation, Mapping) else {"array": observation}


def _from_mapping(value: Mapping[str, Any]) -> Any:
    return value.get("tree", value.get("array"))


def _rows_equal(a: Any, b: Any, rows: Array) -> bool:
    if isinstance(a, Mapping):
        return all(_rows_equal(a[key], b[key], rows) for key in a)
    return np.array_equal(a[rows], b[rows])


def zero_rows(values: Array, mask: Array) -> Array:
    """A copy of ``values`` [N, ...] with zeros where ``mask`` [N]."""
    return np.where(mask.reshape(-1, *[1] * (values.ndim - 1)), np.zeros((), values.dtype), values)
