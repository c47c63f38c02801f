"""EnvPool's environments, stepped in C++ threads, as Gymnasium vector environments.

EnvPool (Weng et al., 2022, https://arxiv.org/abs/2206.10558) resets environments itself, on the step after an episode's
end, with its own random generators, which are seeded once: such a run cannot be resumed exactly.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import importlib
import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..core.errors import ArgumentError
from ..core.protocols import Array
from ..core.trees import map_tree

NOT_EXACT: Final = (
    "EnvPool resets environments itself, from random generators that cannot be saved; vectorization 'sync' would be"
    " exact"
)
_SEEDS: Final = 2**31 - 1
"""Exclusive upper bound of EnvPool's seeds."""
_TAKEN: Final = ("num_envs", "batch_size", "seed", "env_seed", "env_type", "gym_reset_return_info")
"""Arguments that :class:`Pool` sets itself."""
_OWN: Final = ("num_threads", "thread_affinity_offset", "max_num_players", "base_path")
"""Arguments of a pool that no Gymnasium environment has."""


class Pool:
    """Environments of one EnvPool id, made again for every set of seeds: a pool is seeded only at construction.

    Args:
        env_id: EnvPool's id: ``HalfCheetah-v5``, ``Pong-v5``.
        num_envs: N.
        arguments: arguments of ``envpool.make``: ``num_threads``, ``max_episode_steps`` and the environment's own.
        channels_last: whether images are [height, width, channels] instead of [channels, height, width].

    Raises:
        ArgumentError: EnvPool is not installed, has no such id, does not take the arguments, or has no images.
    """

    def __init__(
        self, env_id: str, num_envs: int, arguments: Mapping[str, Any], *, channels_last: bool = False
    ) -> None:
        self.env_id = env_id
        self.num_envs = num_envs
        self.arguments = dict(arguments)
        self.channels_last = channels_last
        self._module = _envpool()
        for name in _TAKEN:
            if name in arguments:
                message = f"{env_id} with vectorization 'envpool' takes no argument {name!r}: the run determines it"
                raise ArgumentError(message, "kwargs", self.arguments)
        if env_id not in (known := self._module.list_all_envs()):
            near = difflib.get_close_matches(env_id.rpartition("/")[2], known, n=3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "see envpool.list_all_envs()"
            raise ArgumentError(f"EnvPool has no {env_id!r}; {hint}", "env_id", env_id)
        self._pool: Any = self._make_pool(list(range(num_envs)))
        space = self._pool.observation_space
        self.observation_space: Any = _with_channels_last(space) if channels_last else space
        self.action_space: Any = _as_gymnasium(self._pool.action_space)
        self._action_dtype = self._pool.action_space.dtype

    def reset(self, seeds: Sequence[int] | None) -> Any:
        """Start episodes everywhere, from ``seeds`` or the generators' current state; observations [N, ...]."""
        if seeds is not None:
            self.close()
            self._pool = self._make_pool([int(seed % _SEEDS) for seed in seeds])
        return self._transpose(self._pool.reset()[0])

    def step(self, actions: Array) -> tuple[Any, Array, Array, Array]:
        """Observations [N, ...], rewards, terminated and truncated [N]."""
        results = self._pool.step(actions.astype(self._action_dtype, copy=False))
        observations, rewards, terminated, truncated, _ = results
        return self._transpose(observations), rewards.astype(np.float64), terminated, truncated

    def close(self) -> None:
        """End the threads."""
        self._pool.close()

    def gymnasiums_spec(self) -> Any:
        """Spec of the Gymnasium environment with this id and arguments; None if none has the same observations."""
        if self.env_id not in gymnasium.registry or self.channels_last:
            return None
        spec = copy.deepcopy(gymnasium.spec(self.env_id))
        spec.kwargs |= {name: value for name, value in self.arguments.items() if name not in _OWN}
        spec.max_episode_steps = spec.kwargs.pop("max_episode_steps", spec.max_episode_steps)
        return spec

    def _transpose(self, observations: Any) -> Any:
        return np.ascontiguousarray(np.moveaxis(observations, 1, -1)) if self.channels_last else observations

    def _make_pool(self, seeds: list[int]) -> Any:
        try:
            with _quiet():
                pool = self._module.make(
                    self.env_id, env_type="gymnasium", num_envs=self.num_envs, env_seed=seeds, **self.arguments
                )
                _ = pool.observation_space, pool.action_space  # created when first read
            return pool
        except Exception as error:  # EnvPool may raise anything for wrong arguments
            given = f" with {self.arguments}" if self.arguments else ""
            message = f"{self.env_id} could not be made by EnvPool{given}: {type(error).__name__}: {error}"
            raise ArgumentError(message, "kwargs", self.arguments) from error


class PooledVectorEnv(VectorEnv[Any, Any, Any]):
    """N of EnvPool's environments, which reset themselves on the step after an episode's end.

    Actions of a Box are float32, as in Gymnasium. An episode that terminates on the step at which its time limit
    truncates it counts as truncated: EnvPool does not distinguish these.

    Args:
        pool: a pool of N environments.
    """

    def __init__(self, pool: Pool) -> None:
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.pool = pool
        self.num_envs = pool.num_envs
        self.spec = pool.gymnasiums_spec()
        self.single_observation_space, self.single_action_space = pool.observation_space, pool.action_space
        self.observation_space = batch_space(pool.observation_space, self.num_envs)
        self.action_space = batch_space(pool.action_space, self.num_envs)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start episodes in all environments.

        Args:
            seed: a seed for each environment, or the first of N consecutive ones.
            options: none are supported.
        """
        if options:
            raise ValueError(f"{self.pool.env_id} of EnvPool takes no options, got {options}")
        seeds = [seed + lane for lane in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(f"{self.pool.env_id} needs {self.num_envs} seeds, got {len(seeds)}")
        return self.pool.reset(seeds), {}

    def step(self, actions: Array) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Take one action in each environment; where an episode has ended, begin the next one instead."""
        return (*self.pool.step(actions), {})

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self.pool.close()


class PooledEnv(gymnasium.Env[Any, Any]):
    """One of EnvPool's environments, for evaluations: the caller resets it, and episodes depend on the seed."""

    def __init__(self, pool: Pool) -> None:
        self.pool = Pool(pool.env_id, 1, {**pool.arguments, "num_threads": 1}, channels_last=pool.channels_last)
        spec = self.pool.gymnasiums_spec()
        self.spec = EnvSpec(pool.env_id) if spec is None else spec
        # It renders nothing itself: for images the corresponding Gymnasium environment is made, if there is one.
        self.metadata = {"render_modes": [] if spec is None else ["human", "rgb_array"]}
        self.observation_space, self.action_space = self.pool.observation_space, self.pool.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        return map_tree(operator.itemgetter(0), self.pool.reset(None if seed is None else [seed])), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one action."""
        observation, reward, terminated, truncated = self.pool.step(np.asarray(action)[None])
        return (
            map_tree(operator.itemgetter(0), observation),
            float(reward[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            {},
        )

    def close(self) -> None:
        """End its thread."""
        self.pool.close()


def _envpool() -> Any:
    try:
        with _quiet():
            return importlib.import_module("envpool")
    except ImportError as error:
        message = f"EnvPool is not installed or cannot be loaded ({error}): pip install 'axonrl[envpool]'"
        raise ArgumentError(message, "vectorization", "envpool") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Gymnasium's warnings about the precision of bounds, which users cannot change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _as_gymnasium(space: Any) -> Any:
    """An action space as in Gymnasium: float64 Boxes become float32."""
    if isinstance(space, Box) and space.dtype == np.float64:
        with _quiet():
            return Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    return space


def _with_channels_last(space: Any) -> Any:
    if not isinstance(space, Box) or len(space.shape) != 3:
        message = f"channels_last: the observation space must be images, a Box with three axes, got {space}"
        raise ArgumentError(message, "wrappers", space)
    low, high = (np.moveaxis(bound, 0, -1) for bound in (space.low, space.high))
    moved: Any = Box(low, high, dtype=space.dtype.type)
    return moved
