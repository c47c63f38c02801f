"""Everything that a run's future follows from."""

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
    """The parts of a run that change while it trains. ``state_dict`` of all of them is a checkpoint.

    ``observation`` [N, ...] is where the running episodes stand; ``statistics`` is what the wrappers of ``env`` had
    learnt when the state was saved; ``environment`` is the state of ``env`` then, where it saves one, and episodes need
    no replay. Without an ``env`` a caller owns the loop, and running episodes cannot be replayed:
    a checkpoint cuts them. ``waiting`` [N] tells which lanes had an action in flight then. ``offline_steps`` counts
    the updates without timesteps, and ``stored`` has a digest of each set of episodes that the memory was filled with.
    ``cluster`` is what the actors of a cluster go on from.
    """

    stepper: Stepper
    episodes: Episodes
    observation: Any = None
    hooks: State = dataclasses.field(default_factory=dict)
    statistics: State | None = None
    environment: State | None = None
    env: BatchedEnvironment | None = None
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
        """Timesteps, and updates without any."""
        return self.stepper.counters.global_timestep + self.offline_steps

    def snapshot(self, name: str = "last") -> PolicySnapshot:
        """The policy as it is now."""
        return self.stepper.snapshot(name, self.current_statistics())

    def current_statistics(self) -> State | None:
        """What the wrappers of the environment have learnt until now."""
        return self.statistics if self.env is None else statistics_of(self.env.env)

    def bring_back(self, env: BatchedEnvironment) -> str | None:
        """Make ``env`` stand where the running episodes do.

        Its own state is handed back to it, where it saved one; else episodes are replayed, or cut where that leads
        nowhere.

        Returns:
            Why the run does not resume exactly in this environment; None if it does.

        Raises:
            ValueError: its wrappers are not those whose statistics were saved.
        """
        if self.statistics is None:
            self.statistics = statistics_of(env.env)
        self.env, self.waiting = env, None
        running = self.episodes.running
        with frozen(env.env, self.statistics):
            if env.not_exact is not None:
                self.episodes.cut()
                return env.not_exact
            if not running.any() or self._handed_back(env):
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

    def _handed_back(self, env: BatchedEnvironment) -> bool:
        """Whether ``env`` took over the state that was saved: not so if that is another kind of environment's."""
        if self.environment is None or not env.saves_state:
            return False
        try:
            env.load_state_dict(self.environment)
        except ValueError:
            return False
        return True

    def cut(self) -> None:
        """The running episodes end here, truncated: those of lanes whose caller owns the loop, at a checkpoint."""
        self.episodes.cut()
        self.stepper.behaviour.begin(np.ones(self.stepper.lanes, np.bool_))

    def state_dict(self) -> State:
        """What a checkpoint holds, in arrays of its own."""
        self.statistics = self.current_statistics()
        running = bool(self.episodes.running.any())
        if self.env is not None:
            self.environment = self.env.state_dict() if running else None
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
        """A checkpoint's content, to be written before training goes on: what the memory stores is not copied."""
        with as_views():
            return self.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> int:
        """Take over a checkpoint. If it is of another number of lanes, new episodes begin in all of them.

        Returns:
            Of how many lanes it is.

        Raises:
            ValueError: it is another model's or another memory's.
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
    """Of how many lanes a checkpoint is."""
    return len(state["episodes"]["running"])


def _rows_equal(a: Any, b: Any, rows: Array) -> bool:
    if isinstance(a, Mapping):
        return all(_rows_equal(a[key], b[key], rows) for key in a)
    return np.array_equal(a[rows], b[rows])
