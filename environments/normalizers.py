"""Running statistics that all copies of an environment share, as in Stable-Baselines3's VecNormalize."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Dict, Tuple

from ..core.checks import number
from ..core.errors import ArgumentError
from ..core.protocols import ACHIEVED_GOAL, ACTION_MASK, DESIRED_GOAL, Array
from ..core.spread import divisor
from .spaces import AnySpace, Leaf, leaves

_EPSILON: Final = 1e-8
"""Added to variances, as in VecNormalize and Gymnasium."""


class Moments:
    """Mean and population variance of all rows [*shape] so far; 0 and 1 before the first."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean: Any = np.zeros(shape)
        self.var: Any = np.ones(shape)
        self.count = 0

    def update(self, rows: Array) -> None:
        """Add ``rows`` [n, ...], n >= 1; Chan, Golub and LeVeque (1983), equation 1.5."""
        n, total = len(rows), self.count + len(rows)
        mean = np.add.reduce(rows, dtype=np.float64) / n
        deviation, delta = rows - mean, mean - self.mean
        squares = np.add.reduce(deviation * deviation) + delta * delta * (self.count * n / total)
        self.mean = self.mean + delta * (n / total)
        self.var = (self.var * self.count + squares) / total
        self.count = total


class NormalizeObservation:
    """Observations minus their running mean, over their running standard deviation, clipped; float32.

    Numbers that have not varied by more than rounding errors become 0.

    In a Dict or a Tuple, Boxes of floats and of integers are normalised, each number separately; bytes (images), bits,
    categories and ``action_mask``, also one of integers, are unchanged. So are the two goals of a goal environment:
    hindsight computes rewards from goals as the environment returned them, and combines goals of different timesteps.

    It has the attributes of Gymnasium's wrapper of this name, for checkpoints and exports.

    Args:
        space: one environment's observation space, with something to normalise.
        clip: largest absolute value of the result, above 0.
    """

    def __init__(self, space: AnySpace, clip: float) -> None:
        shapes = {leaf.name: leaf.spec.shape for leaf in leaves(space) if _is_normalized(leaf)}
        if not shapes:
            raise ArgumentError(
                "the observation space must be a Box of floats or of integers other than bytes, or a Dict or a Tuple"
                f" with one that is not a goal, got {space}",
                "observation_space",
                space,
            )
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.parts = dict(sorted(shapes.items())) if isinstance(space, Dict | Tuple) else None
        """Shapes of the normalised parts of a Dict or a Tuple by name; the moments concatenate them in this order."""
        self.obs_rms = Moments((sum(map(math.prod, shapes.values())),) if self.parts else shapes[""])
        self.update_running_mean = True
        self.space = _with_boxes(space, {name: self._box(shape) for name, shape in shapes.items()})

    def _box(self, shape: tuple[int, ...]) -> AnySpace:
        box: AnySpace = Box(-self.clip, self.clip, shape, np.float32)
        return box

    def learn(self, batch: Any, rows: Any = slice(None)) -> None:
        """Add these ``rows`` of a batch to the statistics, unless they are frozen (evaluation, replay)."""
        if self.update_running_mean:
            learnt = self._concat_parts(batch)[rows]
            if len(learnt):
                self.obs_rms.update(learnt)

    def __call__(self, batch: Any) -> Any:
        """The normalised observations [N, ...]."""
        moments, joined = self.obs_rms, self._concat_parts(batch)
        scaled = (joined - moments.mean) / divisor(moments.mean, moments.var, self.epsilon)
        clipped: Array = np.minimum(np.maximum(scaled, -self.clip), self.clip).astype(np.float32)
        if self.parts is None:
            return clipped
        sizes = [math.prod(shape) for shape in self.parts.values()]
        each = np.split(clipped, np.cumsum(sizes)[:-1], axis=1)
        found = {name: part.copy() for name, part in batch.items()}
        for (name, shape), part in zip(self.parts.items(), each, strict=True):
            found[name] = np.ascontiguousarray(part).reshape(len(part), *shape)
        return found

    def _concat_parts(self, batch: Any) -> Array:
        """Concatenate the normalised parts into one array [N, ...] of float32."""
        if self.parts is None:
            return np.asarray(batch, np.float32)
        each = ((np.asarray(batch[name], np.float32), math.prod(shape)) for name, shape in self.parts.items())
        return np.concatenate([part.reshape(len(part), size) for part, size in each], axis=1)


def _is_normalized(leaf: Leaf) -> bool:
    is_number = isinstance(leaf.space, Box) and leaf.spec.dtype in (np.float32, np.int32)
    return is_number and leaf.name not in (ACHIEVED_GOAL, DESIRED_GOAL, ACTION_MASK)


def _with_boxes(space: AnySpace, boxes: Mapping[str, AnySpace], prefix: str = "") -> AnySpace:
    """The space with the leaves of these names replaced by ``boxes``."""
    start = f"{prefix}/" if prefix else ""
    if isinstance(space, Dict):
        return Dict([(key, _with_boxes(part, boxes, f"{start}{key}")) for key, part in space.spaces.items()])
    if isinstance(space, Tuple):
        return Tuple([_with_boxes(part, boxes, f"{start}{place}") for place, part in enumerate(space.spaces)])
    return boxes.get(prefix, space)


class NormalizeReward:
    """Rewards over the running standard deviation of the discounted sum of past rewards, clipped.

    The sum starts at 0 in every episode, as in VecNormalize; it is not a return-to-go. Rewards become 0 while the sum
    has not varied by more than rounding errors, as at the first timestep. While the statistics are frozen (evaluation)
    rewards are unchanged. Hooks and returns always see the environment's rewards.

    Args:
        num_envs: N.
        discount: discount factor of the sum, 0 .. 1.
        clip: largest absolute value of the result, above 0.
    """

    def __init__(self, num_envs: int, discount: float, clip: float) -> None:
        self.discount = number("discount", discount, at_least=0, at_most=1)
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.return_rms = Moments(())
        self.accumulated_reward = np.zeros(num_envs)
        self.update_running_mean = True

    def begin(self, rows: Any) -> None:
        """Start episodes in these ``rows``, any index of environments."""
        if self.update_running_mean:
            self.accumulated_reward[rows] = 0.0

    def __call__(self, rewards: Any, rows: Any = slice(None)) -> Any:
        """The normalised ``rewards`` [n] of these ``rows``."""
        if not self.update_running_mean:
            return rewards
        self.accumulated_reward[rows] = self.accumulated_reward[rows] * self.discount + rewards
        self.return_rms.update(self.accumulated_reward[rows])
        sums = self.return_rms
        scaled = rewards / divisor(sums.mean, sums.var, self.epsilon)
        return np.minimum(np.maximum(scaled, -self.clip), self.clip)


class Normalizers(NamedTuple):
    """Normalisation shared by all copies of an environment; None where there is none."""

    observation: NormalizeObservation | None = None
    reward: NormalizeReward | None = None

    def __deepcopy__(self, memo: Any) -> Normalizers:
        """Return itself: environments made from a copied spec share the statistics."""
        return self
