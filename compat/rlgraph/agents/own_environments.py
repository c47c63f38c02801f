"""The environments that an agent steps itself, and the unrolls that come of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ....core.trees import map_tree
from ..environments import Environment, SequentialVectorEnv
from ..environments.environment import Stepped, stepped
from ..spaces.readers import actions_out
from ..utils.rlgraph_errors import RLGraphError, refuse
from .acting import Perception
from .core import Acted, Asked
from .fifo_queue import INTERNALS, STATES, Unroll
from .impala_core import FEEDS, ImpalaCore
from .rows import stacked

_RETURNS: Final = 100
"""How many episodes' returns are kept."""


class OwnEnvironments:
    """Environments of one specification.

    Args:
        where: the agent's argument, for messages.
        spec: what ``Environment.from_spec`` takes: a dictionary, or a callable that makes one at each call; an
            environment only if ``count`` is 1.
        count: how many.

    Raises:
        RLGraphError: the specification is wrong, or two of the environments are one object.
    """

    def __init__(self, where: str, spec: Any, count: int) -> None:
        self._is_own = isinstance(spec, str | Mapping) or (callable(spec) and not isinstance(spec, Environment))
        if count > 1 and not self._is_own:
            problem = "must make another environment at each call, for num_workers is more than 1"
            refuse(where, f"{problem}; got {shortened(spec)}", spec)
        try:
            self.all: list[Environment] = SequentialVectorEnv(count, spec).environments
        except RLGraphError as error:
            raise RLGraphError(f"{where}: {error}", where, spec) from error
        if isinstance(self.all[0], SequentialVectorEnv):
            self.terminate()
            refuse(where, "must be one environment: num_workers says how many there are", spec)

    def seed(self, *entropy: int) -> None:
        """Seed those that were made for the agent, each differently; the others are their owner's."""
        if self._is_own:
            seeds = np.random.SeedSequence(entropy).generate_state(len(self.all))
            for environment, seed in zip(self.all, seeds, strict=True):
                environment.seed(int(seed) // 2)  # some take no more than 31 bits

    def terminate(self) -> None:
        """Terminate those that were made for the agent."""
        for environment in self.all if self._is_own else []:
            environment.terminate()


class _Now(NamedTuple):
    """Between two timesteps: what the next one begins with."""

    features: dict[str, Array]
    """Preprocessed states [N, ...] by flat name, and the previous actions and rewards that the network takes."""
    internals: dict[str, Array] | None
    """Zeros where an episode begins."""


class PolicyLoop:
    """Steps environments by an agent's policy.

    Args:
        agent: an IMPALAAgent, whose timesteps are counted, and whose companions are told of them.
        environments: its own.
        look: at these environments alone.
        core: of the agent.
    """

    def __init__(self, agent: Any, environments: OwnEnvironments, look: Perception, core: ImpalaCore) -> None:
        self._where, self._environments = f"{type(agent).__name__}: environment_spec", environments.all
        self._look, self._core, self._agent = look, core, agent
        self._out, self._names = actions_out(agent.action_space), tuple(look.seen_space.flat())
        self._ids = [f"env_{index}" for index in range(len(self._environments))]
        self._now: _Now | None = None
        self._returns = np.zeros(len(self._ids))
        self.episode_returns: deque[float] = deque(maxlen=_RETURNS)
        """Returns of the episodes that ended last, in the environments' rewards."""

    def reset(self) -> None:
        """Begin an episode in all environments; those before were not finished."""
        for one in self._agent.companions:
            one.reset(None)
        self._look.preprocessor.reset()
        self._returns[:] = 0.0
        count = len(self._ids)
        states = self._seen([environment.reset() for environment in self._environments], self._ids)
        shape = self._core.boxes[""].shape
        none = self._core.previous(np.full((count, *shape), -1, np.int32), np.zeros(count, np.float32))
        self._now = _Now({**states, **none}, self._core.zero_internals(count))

    def forget(self) -> None:
        """The next call begins episodes."""
        self._now = None

    def run(self) -> list[Unroll]:
        """One unroll of each environment. After an exception the next call begins episodes."""
        if self._now is None:
            self.reset()
        assert self._now is not None
        now, self._now = self._now, None
        first, columns, features = now.internals or {}, [], [now.features]
        for _ in range(self._core.length):
            now, column = self._step(now)
            columns.append(column)
            features.append(now.features)
        self._now = now
        seen, rest = stacked(features), stacked(columns)
        return [self._unroll(lane, seen, rest, first) for lane in range(len(self._ids))]

    def _unroll(self, lane: int, seen: Any, columns: Any, internals: Mapping[str, Array]) -> Unroll:
        """Select one environment of arrays [T, N, ...]."""
        own, rest = (map_tree(lambda part: np.ascontiguousarray(part[:, lane]), tree) for tree in (seen, columns))
        return {
            **rest,
            STATES: self._look.out({name: own[name] for name in self._names}, False),
            INTERNALS: tuple(part[lane] for part in internals.values()),
            **{FEEDS[name][1]: own[name] for name in self._core.fed},
        }

    def _step(self, now: _Now) -> tuple[_Now, dict[str, Array]]:
        """One timestep of all environments, and what is stored of it, [N, ...] each."""
        self._agent.timesteps += len(self._ids)
        acted = self._core.choose(Asked(now.features, now.internals, True, self._agent.timesteps, self._ids))
        actions = self._out(acted.actions, False)
        told = [stepped(env, action) for env, action in zip(self._environments, actions, strict=True)]
        rewards = np.array([one.reward for one in told], np.float32)
        self._returns += rewards
        for one, env_id in zip(told, self._ids, strict=True):
            for companion in self._agent.companions:
                companion.observed(env_id, float(one.reward), one.terminal and not one.truncated)
                if one.truncated:
                    companion.cut(env_id)
        column = {
            **(acted.extras or {}),
            "rewards": rewards,
            "terminals": np.array([one.terminal for one in told], np.bool_),
            "truncated": np.array([one.truncated for one in told], np.bool_),
            "final_values": self._final_values(now, acted, rewards, told),
        }
        return self._following(acted, rewards, told), column

    def _final_values(self, now: _Now, acted: Acted, rewards: Array, told: Sequence[Stepped]) -> Array:
        """Values of the states in which episodes were cut, float32 [N]; 0 elsewhere."""
        values = np.zeros(len(told), np.float32)
        cut = [lane for lane, one in enumerate(told) if one.truncated]
        if cut:
            found = self._seen([told[lane].state for lane in cut], [self._ids[lane] for lane in cut])
            states = {name: now.features[name].copy() for name in self._names}  # of one size at every call
            for name, part in found.items():
                states[name][cut] = part
            features = {**states, **self._core.previous((acted.extras or {})["actions"], rewards)}
            values[cut] = self._core.values(features, acted.internals)[cut]
        return values

    def _following(self, acted: Acted, rewards: Array, told: Sequence[Stepped]) -> _Now:
        ended = [lane for lane, one in enumerate(told) if one.terminal]
        if ended:
            self._look.preprocessor.reset([self._ids[lane] for lane in ended])
        self.episode_returns.extend(self._returns[ended].tolist())
        self._returns[ended] = 0.0
        raw = [self._environments[k].reset() if one.terminal else one.state for k, one in enumerate(told)]
        actions, rewards = (acted.extras or {})["actions"].copy(), rewards.copy()
        actions[ended], rewards[ended] = -1, 0.0
        internals = None if acted.internals is None else {n: part.copy() for n, part in acted.internals.items()}
        for part in (internals or {}).values():
            part[ended] = 0.0
        return _Now({**self._seen(raw, self._ids), **self._core.previous(actions, rewards)}, internals)

    def _seen(self, raw: Sequence[Any], ids: list[str]) -> dict[str, Array]:
        """States of some environments as the model sees them, [N, ...] by flat name."""
        rows = []
        for state in raw:
            arrays, single = self._look.read("update", state, True, "a state of its environment")
            if not single:
                refuse(self._where, f"makes environments whose states are batches, {shortened(state)}", state)
            rows.append({name: part[0] for name, part in arrays.items()})
        return self._look.see(stacked(rows), ids)
