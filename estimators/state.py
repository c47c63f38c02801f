"""Everything on which a run's future depends."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.chunked_arrays import as_views
from ..core.protocols import Array, State
from ..environments.batched import BatchedEnvironment
from ..environments.observations import as_mapping, from_mapping
from ..environments.statistics import frozen, statistics_of
from ..run_dir.snapshot import Counters, PolicySnapshot
from .episodes import Episodes
from .failures import FAILURES
from .stepper import Stepper


@dataclasses.dataclass
class TrainingState:
    """The changing parts of a run; their ``state_dict`` is a checkpoint.

    ``observation`` [N, ...] are the latest observations of the running episodes; ``statistics`` and ``environment`` are
    the saved statistics of wrappers and, if ``env`` supports it, its saved state, which makes replay unnecessary.
    ``normalises`` tells whether wrappers of ``env`` have statistics. Without an ``env``, a caller owns the loop; then a
    checkpoint cuts running episodes, as they cannot be replayed. ``waiting`` [N] are the lanes with a pending action.
    ``offline_steps`` counts updates without timesteps, and ``stored`` has a digest of each set of episodes stored in
    the memory. ``cluster`` is the state of a cluster's actors.
    """

    stepper: Stepper
    episodes: Episodes
    observation: Any = None
    hooks: State = dataclasses.field(default_factory=dict)
    statistics: State | None = None
    environment: State | None = None
    env: BatchedEnvironment | None = None
    normalises: bool = False
    waiting: Array | None = None
    offline_steps: int = 0
    cluster: State = dataclasses.field(default_factory=dict)
    stored: list[str] = dataclasses.field(default_factory=list)

    @property
    def counters(self) -> Counters:
        """Progress of the run."""
        return self.stepper.counters

    @property
    def position(self) -> int:
        """Timesteps, plus updates without timesteps."""
        return self.stepper.counters.global_timestep + self.offline_steps

    def snapshot(self, name: str = "last") -> PolicySnapshot:
        """The current policy."""
        return self.stepper.snapshot(name, self.current_statistics())

    def current_statistics(self) -> State | None:
        """Current statistics of the environment's wrappers."""
        return statistics_of(self.env.env) if self.env is not None and self.normalises else self.statistics

    def bring_back(self, env: BatchedEnvironment) -> str | None:
        """Restore ``env`` to the state of the running episodes.

        Uses its saved state, if there is one; otherwise replays episodes, or cuts them if that fails.

        Returns:
            Why the run does not resume exactly in this environment; None if it does.

        Raises:
            ValueError: its wrappers do not match the saved statistics.
        """
        found = statistics_of(env.env)
        if self.statistics is None:
            self.statistics = found
        self.env, self.normalises, self.waiting = env, bool(found), None
        running = self.episodes.running
        with frozen(env.env, self.statistics):
            if env.not_exact is not None:
                self.cut()
                return env.not_exact
            try:
                if not running.any() or self._restore_environment(env):
                    return None
                if env.waits:
                    self.cut()
                    return "its running episodes are another environment's, and were cut"
                observation, returns = self.episodes.replay(env)
            except FAILURES as error:
                self.cut()
                return f"its running episodes cannot be replayed, and were cut: {error}"
        same_rewards = bool(self.statistics) or np.array_equal(returns[running], self.episodes.returns[running])
        reproduced = same_rewards and _rows_equal(observation, self.observation, running)
        self.observation = observation
        return None if reproduced else "it does not repeat an episode from its seed and actions"

    def _restore_environment(self, env: BatchedEnvironment) -> bool:
        """Restore the saved state of ``env``; False if it belongs to another kind of environment."""
        if self.environment is None or not env.saves_state:
            return False
        try:
            env.load_state_dict(self.environment)
        except ValueError:
            return False
        return True

    def cut(self) -> None:
        """End the running episodes as truncated: the next ones continue nothing, neither in the memory."""
        self.episodes.cut()
        if hasattr(self.stepper.memory, "cut"):
            self.stepper.memory.cut()
        self.stepper.behaviour.begin(np.ones(self.stepper.lanes, np.bool_))

    def state_dict(self) -> State:
        """Content of a checkpoint, copied."""
        self.statistics = self.current_statistics()
        running = bool(self.episodes.running.any())
        if self.env is not None:
            self.environment = self.env.state_dict() if running and self.env.saves_state else None
        state = {
            **self.stepper.state_dict(),
            "episodes": self.episodes.state_dict(),
            "observation": as_mapping(self.observation) if running else {},
            "hooks": self.hooks,
            "statistics": self.statistics,
        }
        if self.environment is not None:
            state["environment"] = self.environment
        if self.cluster:
            state["cluster"] = dict(self.cluster)
        if self.offline_steps or self.stored:
            state["offline"] = {"steps": self.offline_steps, "stored": list(self.stored)}
        return state if self.waiting is None else {**state, "waiting": self.waiting.copy()}

    def content(self) -> State:
        """Content of a checkpoint that is written at once: the memory's arrays are not copied."""
        with as_views():
            return self.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> int:
        """Restore a checkpoint. If it has another number of lanes, new episodes begin in all of them.

        Returns:
            Number of lanes of the checkpoint.

        Raises:
            ValueError: it belongs to another model or memory.
        """
        lanes = lanes_of(state)
        if lanes == self.stepper.lanes:
            self.stepper.load_state_dict(state)
            self.episodes.load_state_dict(state["episodes"])
            self.observation = from_mapping(state["observation"])
            self.environment, self.waiting = state.get("environment"), state.get("waiting")
        else:
            self.stepper.load_state_dict(state, other_lanes=True)
            self.episodes.follow(state["episodes"])
            self.observation = self.environment = self.waiting = None
        self.hooks = state["hooks"]
        self.statistics = state["statistics"]
        self.cluster = state.get("cluster", {})
        offline = state.get("offline", {"steps": 0, "stored": []})
        self.offline_steps, self.stored = offline["steps"], list(offline["stored"])
        return lanes


def lanes_of(state: Mapping[str, Any]) -> int:
    """Number of lanes of a checkpoint."""
    return len(state["episodes"]["running"])


def _rows_equal(a: Any, b: Any, rows: Array) -> bool:
    if isinstance(a, Mapping):
        return all(_rows_equal(a[key], b[key], rows) for key in a)
    return np.array_equal(a[rows], b[rows])
