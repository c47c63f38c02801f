"""Everything that a run's future follows from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contracts import Array, Exploration, Memory, State
from ..runtimes.executors import Executor
from .episodes import Episodes


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
    ``observation`` and ``recurrent`` [N, ...] are where the running episodes stand.
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

    def reset_recurrent(self, mask: Array) -> None:
        """Recurrent state is zero where ``mask`` [N]: an episode begins."""
        if self.recurrent is not None:
            self.recurrent = {k: zero_rows(v, mask) for k, v in self.recurrent.items()}

    def state_dict(self) -> State:
        """A checkpoint's content."""
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
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a checkpoint.

        Raises:
            ValueError: it is another model's or another memory's.
        """
        kind = type(self.memory).__name__
        if state["memory"]["kind"] != kind:
            raise ValueError(f"the checkpoint holds a {state['memory']['kind']}, the Agent was given a {kind}")
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


def _as_mapping(observation: Any) -> dict[str, Any]:
    return {"tree": dict(observation)} if isinstance(observation, Mapping) else {"array": observation}


def _from_mapping(value: Mapping[str, Any]) -> Any:
    return value.get("tree", value.get("array"))


def zero_rows(values: Array, mask: Array) -> Array:
    """A copy of ``values`` [N, ...] with zeros where ``mask`` [N]."""
    return np.where(mask.reshape(-1, *[1] * (values.ndim - 1)), np.zeros((), values.dtype), values)
