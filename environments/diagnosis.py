"""Checks of a user's environment: what training, exact resume and speed depend on."""

from __future__ import annotations

import copy
import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from ..core.checks import count, integer, shortened
from ..core.errors import ArgumentError, BrokenEnvironmentError, NonFiniteError
from ..core.trees import equal
from .adapters import details_of
from .batched import AnyEnv
from .copies import Single
from .ids import make, similar
from .several_agents import joint
from .spaces import AnySpace, action_spec, observation_spec
from .worlds import has_agents

OK, WARNING, ERROR, SKIPPED = "ok", "warning", "error", "not checked"
COPIES: Final = 8
_SECONDS: Final = 0.3
"""Duration of one measurement of speed."""
_SLOW: Final = 2e-4
"""Minimum seconds of a step for which running copies in their own processes may pay."""


class Finding(NamedTuple):
    """One checked point, its verdict (``ok``, ``warning``, ``error`` or ``not checked``), and what was found."""

    point: str
    verdict: str
    text: str


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The findings about an environment, in the order of the checks. ``str`` of it is a table."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether an agent can train in the environment; warnings do not prevent that."""
        return all(finding.verdict != ERROR for finding in self.findings)

    def __str__(self) -> str:
        widths = [max(len(finding[column]) for finding in self.findings) for column in (0, 1)]
        rows = [f"{one.point:{widths[0]}}  {one.verdict:{widths[1]}}  {one.text}" for one in self.findings]
        return "\n".join([self.name, *rows])


_RESETS: Final = "nothing survives a reset"
_UNKNOWN: Final = Finding(_RESETS, SKIPPED, "a seed must determine an episode for that")


class _Row(NamedTuple):
    """The results of one call of ``reset`` or ``step``."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any


def check(env: AnyEnv | str, *, episodes: int = 5, timesteps: int = 1_000, seed: int = 0) -> Diagnosis:
    """Check an environment with random actions.

    The points: Gymnasium's own checker; spaces that algorithms take; observations, rewards and flags of whole episodes;
    whether a seed determines an episode, and nothing survives a reset, on which exact resume depends; whether episodes
    end; the cost of a step, and the speed of several copies.

    Args:
        env: an id as for :func:`make`, including ``module:Class``, or an environment, which is reset and stepped; or a
            PettingZoo ``ParallelEnv``, or the name of the function that makes one, ``module:parallel_env``, whose
            agents all act at random.
        episodes: number of random episodes.
        timesteps: maximum length of an episode.
        seed: seed of episodes and actions.

    Raises:
        ArgumentError: the id is invalid, ``env`` is not a ``gymnasium.Env``, or a number is out of range.
    """
    episodes, timesteps = count("episodes", episodes), count("timesteps", timesteps)
    seed = integer("seed", seed, at_least=0)
    made = isinstance(env, str)
    world = joint(env)
    one: Any = world() if world is not None else make(env) if isinstance(env, str) else env
    if not callable(getattr(one, "step", None)) or not hasattr(one, "observation_space") or hasattr(one, "num_envs"):
        raise ArgumentError(f"env must be an id or a gymnasium.Env, got {shortened(env)}", "env", env)
    fresh = _fresh(env, world)
    try:
        findings = [_gymnasium(one), _space("observations", one.observation_space, observation_spec)]
        findings.append(_space("actions", one.action_space, action_spec))
        if all(finding.verdict != ERROR for finding in findings):
            played: list[list[_Row]] = []
            findings.append(_values(one, episodes, timesteps, seed, played))
            if findings[-1].verdict != ERROR:
                findings.append(_seeds(fresh, played[0], timesteps, seed))
                told = findings[-1].verdict != WARNING
                findings.append(_resets(one, played[0], timesteps, seed) if told else _UNKNOWN)
                findings += [_ends(one, played, timesteps), _speed(one, fresh, seed)]
    finally:
        if made:
            one.close()
    return Diagnosis(env if isinstance(env, str) else str(env), tuple(findings))


def _fresh(env: Any, world: Callable[[], AnyEnv] | None) -> Callable[[], AnyEnv]:
    """A function that makes another environment; ``ValueError`` if it cannot."""
    if world is None or has_agents(env):
        return functools.partial(similar, env)
    return world


def _gymnasium(env: AnyEnv) -> Finding:
    """Gymnasium's checker, on the environment without wrappers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(env.unwrapped, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # whatever a user's environment raises
            return Finding("Gymnasium's checker", WARNING, _text(error))
    texts = [str(one.message).replace("\033[33mWARN: ", "").replace("\033[0m", "").strip() for one in caught]
    return Finding("Gymnasium's checker", WARNING if texts else OK, "; ".join(dict.fromkeys(texts)) or "passed")


def _space(name: str, space: AnySpace, spec: Callable[[AnySpace], object]) -> Finding:
    """Whether memories and models take a space."""
    try:
        spec(space)
    except ValueError as error:
        return Finding(f"space of {name}", ERROR, _text(error))
    return Finding(f"space of {name}", OK, shortened(space))


def _episode(env: AnyEnv, seed: int, timesteps: int) -> Iterator[_Row]:
    """A random episode: its first observation, then its steps."""
    actions = copy.deepcopy(env.action_space)
    actions.seed(seed)
    observation, _ = env.reset(seed=seed)
    yield _Row(copy.deepcopy(observation), 0.0, False, False)
    for _ in range(timesteps):
        observation, reward, terminated, truncated, _ = env.step(actions.sample())
        yield _Row(copy.deepcopy(observation), reward, terminated, truncated)
        if terminated or truncated:
            return


def _values(env: AnyEnv, episodes: int, timesteps: int, seed: int, played: list[list[_Row]]) -> Finding:
    """Check observations, rewards and flags of random episodes as training does; adds the episodes to ``played``."""
    point, mild, training = "values", "", Single(env, **details_of(env, env))
    for episode in range(episodes):
        rows: list[_Row] = []
        try:
            for row in _episode(env, seed + episode, timesteps):
                where = f"episode {episode}, timestep {len(rows)}: "
                training.check("step" if rows else "reset", (*row, {}))
                if not mild and not env.observation_space.contains(row.observation):
                    mild = where + _why_outside(row.observation, env.observation_space)
                rows.append(row)
        except Exception as error:  # whatever a user's environment raises
            return Finding(point, ERROR, f"episode {episode}, timestep {len(rows)}: {_text(error)}")
        played.append(rows)
    total = sum(len(rows) - 1 for rows in played)
    return Finding(point, WARNING if mild else OK, mild or f"{total:,} timesteps within the spaces")


def _why_outside(value: Any, space: AnySpace) -> str:
    """Why an observation is not in its space, although training accepts it."""
    if isinstance(space, spaces.Box):
        array = np.asarray(value)
        if not np.can_cast(array.dtype, space.dtype):
            return f"the observation has dtype {array.dtype}, its space {space.dtype}"
        outside = np.argwhere((array < space.low) | (array > space.high))
        if len(outside):
            at = tuple(outside[0].tolist())
            return f"observation{list(at)} is {array[at]}, outside {space.low[at]} .. {space.high[at]}"
    return f"the observation {shortened(value)} is not in {shortened(space)}"


def _seeds(fresh: Callable[[], AnyEnv], first: Sequence[_Row], timesteps: int, seed: int) -> Finding:
    """Whether a new environment repeats an episode."""
    point = "a seed determines an episode"
    try:
        other = fresh()
    except ValueError:
        return Finding(point, SKIPPED, "a second copy is needed: pass an id or module:Class instead of an environment")
    try:
        difference = _difference(first, list(_episode(other, seed, timesteps)))
    finally:
        other.close()
    if difference is None:
        return Finding(point, OK, "another copy repeats it exactly: runs resume exactly")
    return Finding(point, WARNING, f"{difference}: runs cannot resume exactly; use only self.np_random for randomness")


def _resets(env: AnyEnv, first: Sequence[_Row], timesteps: int, seed: int) -> Finding:
    """Whether the environment itself repeats an episode after others."""
    difference = _difference(first, list(_episode(env, seed, timesteps)))
    if difference is None:
        return Finding(_RESETS, OK, "after other episodes it repeats the first exactly")
    return Finding(_RESETS, WARNING, f"{difference}, after other episodes: reset must set all of the state")


def _difference(first: Sequence[_Row], again: Sequence[_Row]) -> str | None:
    """The first difference between two episodes; None if they are equal."""
    for timestep, rows in enumerate(zip(first, again, strict=False)):
        for name, one, other in zip(_Row._fields, *rows, strict=True):
            if not equal(one, other):
                return f"with the same seed and actions, {name} of timestep {timestep} differs"
    if len(first) != len(again):
        return f"with the same seed and actions, an episode of {len(first) - 1} timesteps had {len(again) - 1}"
    return None


def _ends(env: AnyEnv, played: Sequence[Sequence[_Row]], timesteps: int) -> Finding:
    """Whether random episodes end, and how."""
    lengths = [len(rows) - 1 for rows in played]
    terminated = sum(bool(rows[-1].terminated) for rows in played)
    truncated = sum(bool(rows[-1].truncated) for rows in played)
    limit = None if env.spec is None else env.spec.max_episode_steps
    text = (
        f"random episodes have {min(lengths):,} to {max(lengths):,} timesteps; {terminated} terminated, {truncated}"
        f" truncated; time limit: {'none' if limit is None else f'{limit:,}'}"
    )
    if terminated + truncated < len(played) and limit is None:
        hint = f"after {timesteps:,} timesteps an episode had not ended: set a limit with the wrapper time_limit"
        return Finding("episodes end", WARNING, f"{text}; {hint}")
    return Finding("episodes end", OK, text)


def _speed(env: AnyEnv, fresh: Callable[[], AnyEnv], seed: int) -> Finding:
    """The cost of a step and of a reset, and the speed of several copies."""
    step, reset = _durations(env, seed)
    text = f"a step takes {_time(step)}, a reset {_time(reset)}"
    try:
        synchronous = SyncVectorEnv([fresh] * COPIES, autoreset_mode=AutoresetMode.NEXT_STEP)
    except ValueError:
        return Finding("speed", OK, f"{text}; it cannot be copied, so copies were not measured")
    rates = {"in one process": _rate(synchronous, seed)}
    if step > _SLOW:
        rates["in processes"] = _rate(AsyncVectorEnv([fresh] * COPIES), seed)
    gains = ", ".join(f"{name} {rate * step:.1f} times" for name, rate in rates.items())
    return Finding("speed", OK, f"{text}; timesteps per second of {COPIES} copies: {gains} those of one")


def _durations(env: AnyEnv, seed: int) -> tuple[float, float]:
    """Mean seconds of a step and of a reset."""
    steps, resets, began, resetting = 0, 0, time.perf_counter(), 0.0
    action = env.action_space.sample()
    while (passed := time.perf_counter() - began) < _SECONDS or steps == 0:
        at = time.perf_counter()
        env.reset(seed=seed + resets)
        resetting += time.perf_counter() - at
        resets += 1
        ended: Any = False
        while not ended and (passed := time.perf_counter() - began) < _SECONDS:
            _, _, terminated, truncated, _ = env.step(action)
            steps += 1
            ended = terminated or truncated
    return (passed - resetting) / steps, resetting / resets


def _rate(envs: Any, seed: int) -> float:
    """Timesteps per second of a vector environment, which is closed."""
    envs.reset(seed=seed)
    actions = envs.action_space.sample()
    steps, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < _SECONDS:
        envs.step(actions)
        steps += COPIES
    envs.close()
    return steps / passed


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:,.1f} ms"


def _text(error: BaseException) -> str:
    """An error in one line: its type, unless it is one of axonrl's, and its message."""
    line, ours = " ".join(str(error).split()), ArgumentError | BrokenEnvironmentError | NonFiniteError
    return line if isinstance(error, ours) else f"{type(error).__name__}: {line}"
