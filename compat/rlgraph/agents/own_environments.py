"""The environments that an agent steps itself, and the unrolls collected in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ....core.trees import map_tree
from ..environments import Environment, SequentialVectorEnv
from ..environments.environment import Stepped, step_environment
from ..spaces.readers import actions_out
from ..utils.rlgraph_errors import RLGraphError, refuse
from .acting import Perception
from .core import ONLY, Asked
from .fifo_queue import INTERNALS, STATES, Unroll
from .impala_core import FEEDS, ImpalaCore
from .rows import stack_rows

_RETURNS: Final = 100
"""Number of latest episodes whose returns are kept."""


class OwnEnvironments:
    """Environments from one specification.

    Args:
        where: the agent's argument, for messages.
        spec: a specification for ``Environment.from_spec``: a dictionary, or a callable that makes a new environment at
            each call; an environment only if ``count`` is 1.
        count: number of environments.

    Raises:
        RLGraphError: the specification is invalid, or two of the environments are the same object.
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
        """Seed the environments made for the agent, each differently; others are left to their owner."""
        if self._is_own:
            seeds = np.random.SeedSequence(entropy).generate_state(len(self.all))
            for environment, seed in zip(self.all, seeds, strict=True):
                environment.seed(int(seed) // 2)  # some environments take at most 31 bits

    def terminate(self) -> None:
        """Terminate the environments made for the agent."""
        for environment in self.all if self._is_own else []:
            environment.terminate()


class PolicyLoop:
    """Steps environments with an agent's policy.

    Args:
        agent: an IMPALAAgent; its timesteps are counted, and its companions notified.
        environments: the agent's own environments.
        look: conversion of the states of these environments only.
        core: the agent's core.
    """

    def __init__(self, agent: Any, environments: OwnEnvironments, look: Perception, core: ImpalaCore) -> None:
        self._where, self._environments = f"{type(agent).__name__}: environment_spec", environments.all
        self._look, self._core, self._agent = look, core, agent
        self._out, self._names = actions_out(agent.action_space), tuple(look.seen_space.flat())
        self._ids = [f"env_{index}" for index in range(len(self._environments))]
        self._features: dict[str, Array] | None = None
        """Preprocessed states [N, ...], and the previous actions and rewards; None: new episodes must begin."""
        self._internals: dict[str, Array] | None = None
        """Internals before the next timestep, [N, ...]: zeros where an episode begins."""
        self._returns = np.zeros(len(self._ids))
        self.episode_returns: deque[float] = deque(maxlen=_RETURNS)
        """Returns of the latest episodes, of unclipped rewards."""

    def reset(self) -> None:
        """Begin an episode in all environments; running episodes are dropped."""
        for one in self._agent.companions:
            one.reset(None)
        self._look.preprocessor.reset()
        self._returns[:] = 0.0
        count, shape = len(self._ids), self._core.boxes[ONLY].shape
        states = self._preprocess([environment.reset() for environment in self._environments], self._ids)
        none = self._core.previous(np.full((count, *shape), -1, np.int32), np.zeros(count, np.float32))
        self._features, self._internals = {**states, **none}, self._core.zero_internals(count)

    def forget(self) -> None:
        """Make the next call begin new episodes."""
        self._features = None

    def run(self) -> list[Unroll]:
        """One unroll of each environment. After an exception the next call begins new episodes."""
        if self._features is None:
            self.reset()
        first, features, columns = self._internals or {}, list[Any]([self._features]), []
        try:
            for _ in range(self._core.length):
                columns.append(self._step())
                features.append(self._features)
        except BaseException:
            self.forget()
            raise
        seen, rest = stack_rows(features), stack_rows(columns)
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

    def _step(self) -> dict[str, Array]:
        """Step all environments; returns the timestep's stored arrays, [N, ...] each."""
        core, agent, features = self._core, self._agent, self._features or {}
        agent.timesteps += len(self._ids)
        acted = core.choose(Asked(features, self._internals, True, agent.timesteps, self._ids))
        extras: dict[str, Array] = acted.extras or {}
        actions = self._out(acted.actions, False)
        told = [step_environment(env, action) for env, action in zip(self._environments, actions, strict=True)]
        rewards = np.array([one.reward for one in told], np.float32)
        self._returns += rewards
        for one, env_id in zip(told, self._ids, strict=True):
            for companion in agent.companions:
                companion.observed(env_id, one.reward, one.terminal and not one.truncated)
                if one.truncated:
                    companion.cut(env_id)
        cut, values = [lane for lane, one in enumerate(told) if one.truncated], np.zeros(len(told), np.float32)
        if cut:  # values of the last states of cut episodes
            last = {name: features[name].copy() for name in self._names}  # one batch size at every call
            for name, part in self._preprocess([told[k].state for k in cut], [self._ids[k] for k in cut]).items():
                last[name][cut] = part
            values[cut] = core.values({**last, **core.previous(extras["actions"], rewards)}, acted.internals)[cut]
        self._go_on(told, extras["actions"].copy(), rewards.copy(), acted.internals)
        return {
            **extras,
            "rewards": rewards,
            "terminals": np.array([one.terminal for one in told], np.bool_),
            "truncated": np.array([one.truncated for one in told], np.bool_),
            "final_values": values,
        }

    def _go_on(
        self, told: Sequence[Stepped], actions: Array, rewards: Array, internals: Mapping[str, Array] | None
    ) -> None:
        """Advance to the next timestep; episodes begin where one has ended."""
        ended = [lane for lane, one in enumerate(told) if one.terminal]
        self._look.preprocessor.reset([self._ids[lane] for lane in ended])
        self.episode_returns.extend(self._returns[ended].tolist())
        self._returns[ended] = 0.0
        raw = [self._environments[k].reset() if one.terminal else one.state for k, one in enumerate(told)]
        actions[ended], rewards[ended] = -1, 0.0
        self._internals = None if internals is None else {name: part.copy() for name, part in internals.items()}
        for part in (self._internals or {}).values():
            part[ended] = 0.0
        self._features = {**self._preprocess(raw, self._ids), **self._core.previous(actions, rewards)}

    def _preprocess(self, raw: Sequence[Any], ids: list[str]) -> dict[str, Array]:
        """Preprocessed states of some environments, [N, ...] by flat name."""
        rows = []
        for state in raw:
            arrays, single = self._look.read("update", state, True, "a state of its environment")
            if not single:
                refuse(self._where, f"makes environments whose states are batches, {shortened(state)}", state)
            rows.append({name: part[0] for name, part in arrays.items()})
        return self._look.see(stack_rows(rows), ids)
