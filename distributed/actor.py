"""An actor steps environments with a policy and answers requests with unrolls. Loads no TensorFlow.

An actor that dies or does not answer is handled in planner.py.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from gymnasium import spaces

from ..core.protocols import ACTION_MASK, Array, ArrayTree, SpecTree, State
from ..core.schedules import follows_run
from ..core.trees import leaves, map_tree
from ..environments.batched import BatchedEnvironment
from ..environments.statistics import learnt, statistics_of, take_moments
from ..explorations.returned_actions import level_of
from ..memories.columns import OBSERVATIONS, allocate
from ..policies.actor import ActorProgram
from ..policies.behaviour import Behaviour
from .apex_epsilons import ApexEpsilonGreedy
from .unrolls import Ended, Head, Request, Seconds, Unroll, UnrollId

_ACTOR: Final = 1
"""First word of an actor's spawn key, after the cluster's; must never change."""
_CLUSTER: Final = 4


@dataclasses.dataclass(frozen=True)
class ActorSpec:
    """Everything an actor is built from.

    Args:
        actor: index of the actor.
        incarnation: number of earlier processes of this actor.
        program: the policy's program.
        environment: makes the N environments.
        transition: specs of one environment's transition.
        length: T, timesteps in an unroll.
        run_seed: seed of the run.
        statistics: initial statistics of normalising wrappers; None without such wrappers.
        n_step: timesteps of a return, for the TD errors of new transitions; None if no TD errors are needed.
        discount: the memory's discount.
        epsilons: one per environment, float64 [N], for epsilon-greedy exploration; None to use the model's own.
    """

    actor: int
    incarnation: int
    program: ActorProgram
    environment: Callable[[], BatchedEnvironment]
    transition: Mapping[str, SpecTree]
    length: int
    run_seed: int
    statistics: State | None = None
    n_step: int | None = None
    discount: float = 1.0
    epsilons: Array | None = None


class Collector:
    """An actor, independent of the process it runs in.

    Deterministic given its spec and the weights it receives: environments and exploration draw from
    ``SeedSequence(run_seed, spawn_key=(4, 1, actor, incarnation))``.
    """

    def __init__(self, made: ActorSpec) -> None:
        self._made = made
        self.incarnation = made.incarnation
        sequence = np.random.SeedSequence(made.run_seed, spawn_key=(_CLUSTER, _ACTOR, made.actor, made.incarnation))
        acting, episodes = (np.random.Generator(np.random.PCG64(one)) for one in sequence.spawn(2))
        self._env = made.environment()
        if made.statistics:
            take_moments(self._env.env, made.statistics)
        self._learnt_at = statistics_of(self._env.env)
        self._seeds = episodes
        self._program = made.program
        # A copy: its state belongs to these environments, also where other actors are in the same process.
        exploration: Any = copy.deepcopy(made.program.predict.exploration)
        if made.epsilons is not None:
            exploration = ApexEpsilonGreedy(made.epsilons, self._env.action_space)
        self._follow = exploration.follow if follows_run(exploration) else None
        predict = dataclasses.replace(made.program.predict, exploration=exploration)
        self._executor = made.program.executor()
        self._behaviour = Behaviour(predict, self._executor, self._env.num_envs, acting)
        self.version = made.program.version
        """Version of the weights in use."""
        everyone = np.ones(self._env.num_envs, np.bool_)
        self._observation = self._reset(everyone, None)
        self._returns = np.zeros(self._env.num_envs)
        self._lengths = np.zeros(self._env.num_envs, np.int64)
        self._began = np.full(self._env.num_envs, time.perf_counter())
        self._next = 0
        self._left = time.perf_counter()
        self._targets = _Targets.of(made, self._env.num_envs)

    def set_weights(self, version: int, weights: Mapping[str, Array], statistics: State | None = None) -> None:
        """Use these weights from the next unroll on, and normalise with the statistics of all actors."""
        self._executor.set_weights(weights)
        self.version = version
        if statistics:
            take_moments(self._env.env, statistics)
            self._learnt_at = statistics_of(self._env.env)

    def collect(self, request: Request) -> Unroll:
        """Collect the next unroll.

        Raises:
            BrokenEnvironmentError: an environment raised, or returned a value outside its spaces.
            NonFiniteError: a reward, an observation or an action is NaN or infinite.
        """
        began = time.perf_counter()
        waiting, number, length = began - self._left, self._env.num_envs, self._made.length
        stored = {key: spec for key, spec in self._made.transition.items() if key not in OBSERVATIONS}
        columns = allocate(stored, length, number, name="columns")
        observations = allocate(self._made.transition["observation"], length + 1, number, name="observation")
        episodes: list[Ended] = []
        final: list[ArrayTree] = []
        acting = stepping = 0.0
        targets = self._targets
        if self._follow is not None:
            self._follow(request.progress)
        for t in range(length):
            started = time.perf_counter()
            action, recorded, predictions = self._behaviour.act(self._observation, request.timestep)
            acted = time.perf_counter()
            step = self._env.step(action)
            stepped = time.perf_counter()
            acting, stepping = acting + acted - started, stepping + stepped - acted
            _put(observations, t, self._observation)
            reward = step.reward if step.normalized_reward is None else step.normalized_reward
            outcome = {"reward": reward, "terminated": step.terminated, "truncated": step.truncated}
            for key, value in {**recorded, "action": action, **outcome}.items():
                _put(columns[key], t, value)
            self._returns += step.reward
            self._lengths += 1
            ended = step.terminated | step.truncated
            if targets is not None:
                values = _legal_values(predictions)
                targets.add(t, values, action, outcome, self._values_of(step.observation, ended, values))
            self._observation = step.observation
            if ended.any():
                episodes += self._finish(t, ended, step)
                final += [map_tree(lambda v, n=n: v[n].copy(), step.observation) for n in np.flatnonzero(ended)]
                self._observation = self._reset(ended, step.observation)
        _put(observations, length, self._observation)
        none = map_tree(lambda rows: rows[:0, 0], observations)
        ends = map_tree(lambda *rows: np.stack(rows), *final) if final else none
        at = np.array([(one.t, one.environment) for one in episodes], np.int64).reshape(-1, 2)
        nbytes = sum(array.nbytes for array in leaves([columns, observations]))
        seconds = Seconds(acting, stepping, waiting)
        head = self._head(tuple(episodes), request, seconds, nbytes)
        self._left = time.perf_counter()
        return Unroll(head, observations, columns, ends, at, self._td_error())

    def _td_error(self) -> Array | None:
        """TD errors of the unroll that ends with the current observation; None if the learner computes them."""
        if self._targets is None:
            return None
        predictions, _ = self._executor.act(self._observation)
        self._targets.close(self._made.length, _legal_values(predictions))
        return self._targets.pop_td_errors()

    def _head(self, episodes: tuple[Ended, ...], request: Request, seconds: Seconds, nbytes: int) -> Head:
        """The head of the next unroll, with what normalising wrappers learnt since the previous one."""
        unroll_id = UnrollId(self._made.actor, self._made.incarnation, self._next)
        self._next += 1
        before, self._learnt_at = self._learnt_at, statistics_of(self._env.env)
        exploration: Any = self._behaviour.exploration
        if isinstance(exploration, ApexEpsilonGreedy):
            levels = exploration.epsilons
        else:
            levels = np.full(self._env.num_envs, level_of(exploration, request.timestep))
        timesteps = self._made.length * self._env.num_envs
        return Head(
            unroll_id, self.version, timesteps, episodes, levels, seconds, nbytes, learnt(before, self._learnt_at)
        )

    def close(self) -> None:
        """Close the environments."""
        self._env.close()

    def _reset(self, mask: Array, observation: ArrayTree | None) -> ArrayTree:
        seeds = [int(seed) for seed in self._seeds.integers(2**31, size=self._env.num_envs)]
        begun = self._env.reset(None if observation is None else mask, seeds)
        self._behaviour.begin(mask)
        return begun

    def _finish(self, t: int, ended: Array, step: Any) -> list[Ended]:
        now, found = time.perf_counter(), []
        for n in np.flatnonzero(ended).tolist():
            ends = bool(step.terminated[n]), bool(step.truncated[n])
            found.append(
                Ended(t, n, float(self._returns[n]), int(self._lengths[n]), *ends, now - float(self._began[n]))
            )
        self._returns[ended] = 0
        self._lengths[ended] = 0
        self._began[ended] = now
        return found

    def _values_of(self, observation: ArrayTree, ended: Array, like: Array) -> Array:
        """Values [N, A] of the last observations of ended episodes; the other values come with the next timestep."""
        if not ended.any():
            return np.zeros_like(like)
        return _legal_values(self._executor.act(observation)[0])


class _Targets:
    """TD errors of n-step returns, from the values predicted while acting.

    ``R + gamma^m max_a Q(s', a) - Q(s, a)``, m <= n: Horgan et al. 2018, appendix F. The errors of the newest n - 1
    timesteps are completed by the next unroll.
    """

    def __init__(self, length: int, number: int, n_step: int, discount: float, start: int) -> None:
        self._n, self._gamma, self._start = n_step, discount, start
        self._number, self._length = number, length
        self._open: list[dict[str, Array]] = []  # newest timesteps with incomplete returns, oldest first
        self._found: Array = np.full((length, number), np.nan, np.float32)

    @classmethod
    def of(cls, made: ActorSpec, number: int) -> _Targets | None:
        space, outputs = made.program.action_space, made.program.predict.outputs
        known = made.n_step is not None and "q_values" in outputs and isinstance(space, spaces.Discrete)
        if not known or made.n_step is None or made.program.predict.state is not None:
            return None
        return cls(made.length, number, made.n_step, made.discount, int(space.start))

    def add(self, t: int, values: Array, action: Any, outcome: Mapping[str, Array], final: Array) -> None:
        """Add a timestep: ``values`` [N, A] when it acted, and ``final`` [N, A] where its episode ended."""
        if t:
            self.close(t, values)
        taken = values[np.arange(len(values)), np.asarray(action) - self._start]
        zeros = np.zeros(len(taken))
        self._open.append({"q": taken, "r": zeros, "discount": zeros + 1, "target": zeros + np.nan})
        ended = outcome["terminated"] | outcome["truncated"]
        bootstrap = np.where(outcome["terminated"], 0.0, final.max(1))
        for one in self._open:
            going = np.isnan(one["target"])
            one["r"] = np.where(going, one["r"] + one["discount"] * outcome["reward"], one["r"])
            one["discount"] = np.where(going, one["discount"] * self._gamma, one["discount"])
            one["target"] = np.where(going & ended, one["r"] + one["discount"] * bootstrap, one["target"])

    def close(self, t: int, values: Array) -> None:
        """Complete the return that ends at timestep t of the unroll, given the values [N, A] there."""
        if len(self._open) < self._n:
            return
        one = self._open.pop(0)
        target = np.where(np.isnan(one["target"]), one["r"] + one["discount"] * values.max(1), one["target"])
        self._found[t - 1] = target - one["q"]

    def pop_td_errors(self) -> Array:
        """TD errors that this unroll completed: row t belongs to timestep t - (n - 1)."""
        found, self._found = self._found, np.full((self._length, self._number), np.nan, np.float32)
        return found


def _legal_values(predictions: Mapping[str, Array]) -> Array:
    """Values [N, A] of actions, in which no illegal one is above a legal one."""
    values = predictions["q_values"]
    mask = predictions.get(ACTION_MASK)
    return values if mask is None else np.where(mask, values, values.min(1, keepdims=True))


def _put(arrays: Any, t: int, values: Any) -> None:
    if isinstance(arrays, Mapping):
        for key, array in arrays.items():
            array[t] = values[key]
    else:
        arrays[t] = values
