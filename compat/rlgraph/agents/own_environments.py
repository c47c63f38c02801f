"""The environments that an agent steps itself, and the unrolls that come of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ..environments import Environment, SequentialVectorEnv
from ..environments.environment import Stepped, stepped
from ..environments.sequential_vector_env import inner
from ..processing.preprocessors import Preprocessor
from ..spaces import Space
from ..spaces.readers import StatesReader, actions_out
from ..utils.rlgraph_errors import refuse
from .buffers import stacked
from .core import ONLY
from .impala_core import Choice, ImpalaCore
from .unrolls import Unroll

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
        self.all: list[Environment] = []
        try:
            for index in range(count):
                self.all.append(self._made(where, spec, index))
        except BaseException:
            self.terminate()
            raise

    def _made(self, where: str, spec: Any, index: int) -> Environment:
        made = Environment.from_spec(spec)
        first = self.all[0] if self.all else made
        if isinstance(made, SequentialVectorEnv):
            refuse(where, "must be one environment: num_workers says how many there are", spec)
        if any(inner(made) is inner(other) for other in self.all) or (self.all and not self._is_own):
            problem = "must make another environment at each call, for num_workers is more than 1"
            refuse(where, f"{problem}; got {shortened(spec)}", spec)
        if (made.state_space, made.action_space) != (first.state_space, first.action_space):
            refuse(where, f"makes environments of different spaces: number {index} differs from the first", spec)
        return made

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


class Stepping(Protocol):
    """The agent, as the stepper sees it."""

    def begun(self) -> None:
        """Episodes begin in all environments."""
        ...

    def acted(self, actions: int) -> int:
        """So many actions more; returns the agent's timesteps."""
        ...

    def stepped(self, lane: int, reward: float, terminal: bool, truncated: bool) -> None:
        """What came of one of them."""
        ...


class _Now(NamedTuple):
    """Between two timesteps: what the next one begins with."""

    states: dict[str, Array]
    """Preprocessed, [N, ...] by flat name."""
    actions: Array
    """The previous ones; -1 where an episode begins."""
    rewards: Array
    internals: dict[str, Array] | None
    """Zeros where an episode begins."""


class PolicyLoop:
    """Steps environments by an agent's policy.

    Args:
        where: the agent's class, for messages.
        environments: of the agent.
        states: their state space.
        actions: their action space.
        preprocessed: the space of what the model sees.
        preprocessor: of these environments alone.
        core: of the agent.
        agent: is told of each timestep.
    """

    def __init__(
        self,
        where: str,
        environments: OwnEnvironments,
        states: Space,
        actions: Space,
        preprocessed: Space,
        preprocessor: Preprocessor,
        core: ImpalaCore,
        agent: Stepping,
    ) -> None:
        self._where, self._environments = f"{where}: environment_spec", environments
        self._read, self._out = StatesReader(where, states), actions_out(actions)
        self._preprocessed, self._preprocessor, self._core, self._agent = preprocessed, preprocessor, core, agent
        self._boxes = preprocessed.flat()
        self._lanes = list(range(len(environments.all)))
        self._now: _Now | None = None
        self._returns = np.zeros(len(self._lanes))
        self.episode_returns: deque[float] = deque(maxlen=_RETURNS)
        """Of the episodes that ended last, in the environments' rewards."""

    def reset(self) -> None:
        """Begin an episode in all environments."""
        self._agent.begun()
        self._preprocessor.reset()
        self._returns[:] = 0.0
        states = self._seen([environment.reset() for environment in self._environments.all], self._lanes)
        count = len(self._lanes)
        self._now = _Now(states, *self._core.no_previous(count), self._core.zero_internals(count))

    def forget(self) -> None:
        """The next call begins episodes."""
        self._now = None

    def run(self) -> list[Unroll]:
        """One unroll of each environment. After an exception the next call begins episodes."""
        if self._now is None:
            self.reset()
        assert self._now is not None
        now, self._now = self._now, None
        first, columns, states = now.internals, [], []
        befores: list[tuple[Array, Array]] = []
        for _ in range(self._core.length):
            states.append(now.states)
            befores.append((now.actions, now.rewards))
            now, column = self._step(now)
            columns.append(column)
        states.append(now.states)
        befores.append((now.actions, now.rewards))
        self._now = now
        return self._unrolls(states, columns, befores, first)

    def _step(self, now: _Now) -> tuple[_Now, dict[str, Array]]:
        """One timestep of all environments, and what is stored of it, [N, ...] each."""
        core, count = self._core, len(self._lanes)
        timestep = self._agent.acted(count)
        choice = core.choose(now.states, now.actions, now.rewards, now.internals, True, timestep, self._lanes)
        acted = self._out({ONLY: choice.actions}, False)
        told = [stepped(env, action) for env, action in zip(self._environments.all, acted, strict=True)]
        rewards = np.array([one.reward for one in told], np.float32)
        terminals = np.array([one.terminal for one in told], np.bool_)
        truncated = np.array([one.truncated for one in told], np.bool_)
        self._returns += rewards
        for lane, one in enumerate(told):
            self._agent.stepped(lane, float(one.reward), one.terminal, one.truncated)
        final_values = self._final_values(now, choice, rewards, told)
        following = self._following(choice, rewards, told, terminals)
        return following, {
            "terminals": terminals,
            "actions": choice.actions,
            "rewards": rewards,
            "action_probs": choice.probs,
            "log_probs": choice.log_probs,
            "truncated": truncated,
            "final_values": final_values,
        }

    def _final_values(self, now: _Now, choice: Choice, rewards: Array, told: Sequence[Stepped]) -> Array:
        """What the states are worth in which episodes were cut, float32 [N]; 0 elsewhere."""
        values = np.zeros(len(told), np.float32)
        cut = [lane for lane, one in enumerate(told) if one.truncated]
        if cut:
            found = self._seen([told[lane].state for lane in cut], cut)
            states = {name: part.copy() for name, part in now.states.items()}  # of one size at every call
            for name, part in found.items():
                states[name][cut] = part
            values[cut] = self._core.values(states, choice.actions, rewards, choice.internals)[cut]
        return values

    def _following(self, choice: Choice, rewards: Array, told: Sequence[Stepped], terminals: Array) -> _Now:
        ended = np.flatnonzero(terminals).tolist()
        self._preprocessor.reset(ended) if ended else None
        self.episode_returns.extend(self._returns[ended].tolist())
        self._returns[ended] = 0.0
        raw = [self._environments.all[k].reset() if one.terminal else one.state for k, one in enumerate(told)]
        states = self._seen(raw, self._lanes)
        actions, rewards = choice.actions.copy(), rewards.copy()
        none, zero = self._core.no_previous(len(ended))
        actions[ended], rewards[ended] = none, zero
        internals = choice.internals
        if internals is not None:
            kept = (~terminals).astype(np.float32)[:, None]
            internals = {name: part * kept for name, part in internals.items()}
        return _Now(states, actions, rewards, internals)

    def _seen(self, raw: Sequence[Any], lanes: list[int]) -> dict[str, Array]:
        """States of some environments as the model sees them, [N, ...] by flat name."""
        rows = []
        for state in raw:
            arrays, single = self._read("update", state, "a state of its environment")
            if not single:
                refuse(self._where, f"makes environments whose states are batches, {shortened(state)}", state)
            rows.append({name: part[0] for name, part in arrays.items()})
        found = self._preprocessor(stacked(rows), lanes)
        return {name: found[name].astype(box.dtype, copy=False) for name, box in self._boxes.items()}

    def _unrolls(
        self,
        states: Sequence[Mapping[str, Array]],
        columns: Sequence[Mapping[str, Array]],
        befores: Sequence[tuple[Array, Array]],
        internals: Mapping[str, Array] | None,
    ) -> list[Unroll]:
        unrolls = []
        for lane in self._lanes:
            seen = {name: np.stack([one[name][lane] for one in states]) for name in self._boxes}
            unroll: Unroll = {name: np.stack([column[name][lane] for column in columns]) for name in columns[0]}
            unroll["states"] = self._preprocessed.unflatten(seen)
            unroll["initial_internal_states"] = tuple(part[lane] for part in (internals or {}).values())
            if self._core.feeds_action:
                unroll["previous_actions"] = np.stack([actions[lane] for actions, _ in befores])
            if self._core.feeds_reward:
                unroll["previous_rewards"] = np.stack([rewards[lane] for _, rewards in befores])
            unrolls.append(unroll)
        return unrolls
