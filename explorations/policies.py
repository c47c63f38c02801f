"""Behaviour policies: turn a model's predictions into actions. NumPy, on the host.

Each follows the ``Exploration`` protocol of ``core/protocols.py`` for any number of environments N. They do not clip:
the memory stores unclipped actions, and the environments' interface clips the actions for ``env.step``.

Policies for Discrete or MultiDiscrete actions draw only legal ones if the model predicts ``action_mask``, bool [N, A].
For a row without a legal action they return ``NO_LEGAL_ACTION``, which the environments' interface refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..core.checks import flag, shortened
from ..core.errors import ArgumentError
from ..core.protocols import ACTION_MASK, NO_LEGAL_ACTION, Array
from ..core.schedules import RUN, ScheduleLike, checked_value, follows_run, make_schedule

NO_EXTRAS: Mapping[str, Array] = MappingProxyType({})


class Greedy:
    """The model's greedy action."""

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """``predictions["action"]``, [N, ...], unchanged."""
        return predictions["action"], NO_EXTRAS

    def level(self, timestep: int) -> float:
        """Always 0."""
        return 0.0


class Scheduled:
    """A policy whose level follows ``global_timestep``, or the run's progress if its schedule is ``over="run"``.

    It keeps no decay counter: each action evaluates the schedule.
    """

    def __init__(self, level: ScheduleLike, name: str, at_most: float = math.inf) -> None:
        self._name, self._at_most = name, at_most
        self._schedule = make_schedule(level, name, at_least=0, at_most=at_most)
        self._is_checked = hasattr(self._schedule, "bounds")
        self.over = RUN if follows_run(self._schedule) else None
        self._progress = 0.0

    def follow(self, progress: float) -> None:
        """Set the run's progress, 0 to 1. Called before each action if ``over`` is set."""
        self._progress = progress

    def level(self, timestep: int) -> float:
        """Epsilon, sigma or the temperature."""
        return float(self._value(timestep))

    def _value(self, timestep: int) -> Any:
        """The schedule's value at this timestep."""
        value = self._schedule(timestep if self.over is None else self._progress)
        if self._is_checked and type(value) is float:
            return value
        return checked_value(self._name, self._schedule, value, at_least=0, at_most=self._at_most)


class EpsilonGreedy(Scheduled):
    """A uniformly random action with probability epsilon, else the greedy one, independently in each environment.

    A random action may be the greedy one, whose probability is therefore ``1 - epsilon + epsilon / n``. With
    ``predictions["action_mask"]`` random actions are legal, and n is the number of legal ones. Either all choices of a
    MultiDiscrete action are random, or none.

    Args:
        epsilon: probability in 0 .. 1: a number, or a schedule on ``global_timestep`` or over the run.
        action_space: a Discrete or a MultiDiscrete space.
    """

    def __init__(self, epsilon: ScheduleLike, action_space: Any) -> None:
        super().__init__(epsilon, "epsilon", at_most=1)
        self.epsilon = self._schedule
        if is_discrete(action_space):
            self._low: Any = int(action_space.start)
            self._high: Any = self._low + int(action_space.n)
            self._sizes: list[int] = [int(action_space.n)]
        elif is_multi_discrete(action_space):
            self._low = np.asarray(action_space.start, np.int64)  # sums may not fit into the dtype of the space
            self._high = self._low + np.asarray(action_space.nvec, np.int64)
            self._sizes = np.ravel(action_space.nvec).tolist()
        else:
            raise unsuitable("EpsilonGreedy", "a Discrete or a MultiDiscrete action space", action_space)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N]; [N, *nvec.shape] for a MultiDiscrete space."""
        greedy = predictions["action"].astype(np.int32, copy=False)
        epsilon = self._epsilon(timestep, rng)
        if greedy.ndim > 1:
            explores = (rng.random(len(greedy)) < epsilon).reshape(-1, *[1] * (greedy.ndim - 1))
            return np.where(explores, self.each(predictions, rng), greedy), NO_EXTRAS
        if len(greedy) == 1:  # the usual case, in a third of the time of array operations
            if rng.random() >= epsilon:
                return greedy, NO_EXTRAS
            if ACTION_MASK in predictions:
                return random_legal(self._mask(predictions), self._low, rng), NO_EXTRAS
            return np.array([rng.integers(self._low, self._high, None, np.int32)]), NO_EXTRAS
        explores = rng.random(greedy.shape) < epsilon
        if ACTION_MASK in predictions:
            return np.where(explores, random_legal(self._mask(predictions), self._low, rng), greedy), NO_EXTRAS
        return np.where(explores, rng.integers(self._low, self._high, greedy.shape, np.int32), greedy), NO_EXTRAS

    def _epsilon(self, timestep: int, rng: np.random.Generator) -> Any:
        """An epsilon for all, or one per environment [N]."""
        return self._value(timestep)

    def each(self, predictions: Mapping[str, Array], rng: np.random.Generator) -> Array:
        """A random action of a MultiDiscrete space for each environment, int32 [N, *nvec.shape]."""
        shape = predictions["action"].shape
        if ACTION_MASK not in predictions:
            return rng.integers(self._low, self._high, shape, np.int32)
        masks = np.split(self._mask(predictions), np.cumsum(self._sizes)[:-1], axis=1)
        starts = self._low.ravel().tolist()
        drawn = [random_legal(mask, start, rng) for mask, start in zip(masks, starts, strict=True)]
        return np.stack(drawn, axis=1).reshape(shape)

    def _mask(self, predictions: Mapping[str, Array]) -> Array:
        return mask_of(predictions, (len(predictions["action"]), sum(self._sizes)))


class Noisy:
    """The greedy action of a network with noise in its weights: ``predictions["noisy_action"]``.

    Source: Fortunato et al. 2018, https://arxiv.org/abs/1706.10295, section 3.1.
    """

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """``predictions["noisy_action"]``, [N, ...], unchanged."""
        return predictions["noisy_action"], NO_EXTRAS


class Random:
    """Uniformly random actions: independent in each part of a Dict or a Tuple space, within the bounds of a Box.

    With ``predictions["action_mask"]`` actions of a Discrete or a MultiDiscrete space are legal; for a part of a
    composite space it is ``predictions["action_mask/part"]``.

    Args:
        action_space: a Discrete, a MultiDiscrete, a MultiBinary or a bounded Box of floats, or a Dict or a Tuple of
            these.
    """

    def __init__(self, action_space: Any) -> None:
        self._parts = [(name, _uniform(space)) for name, space in parts_of(action_space)]
        self._is_plain = not hasattr(action_space, "spaces")

    def __call__(
        self, predictions: Mapping[str, Any], timestep: int, rng: np.random.Generator
    ) -> tuple[Any, Mapping[str, Array]]:
        """Actions [N, ...] of the space; a dictionary by part for a composite space.

        ``predictions["action"]`` gives N.
        """
        if self._is_plain:
            return self._parts[0][1](predictions, rng), NO_EXTRAS
        actions: dict[str, Array] = {}
        for name, draw in self._parts:
            own = {"action": predictions["action"][name]}
            if (mask := predictions.get(f"{ACTION_MASK}/{name}")) is not None:
                own[ACTION_MASK] = mask
            actions[name] = draw(own, rng)
        return actions, NO_EXTRAS

    def level(self, timestep: int) -> float:
        """Always 1."""
        return 1.0


def _uniform(space: Any) -> Callable[[Mapping[str, Array], np.random.Generator], Array]:
    """A function that draws actions [N, ...] of a space that is not composite."""
    if is_discrete(space):
        low, high = int(space.start), int(space.start) + int(space.n)

        def discrete(predictions: Mapping[str, Array], rng: np.random.Generator) -> Array:
            count = len(predictions["action"])
            if ACTION_MASK in predictions:
                return random_legal(mask_of(predictions, (count, high - low)), low, rng)
            return rng.integers(low, high, count, np.int32)

        return discrete
    if is_multi_discrete(space):
        return EpsilonGreedy(1.0, space).each
    if is_float_box(space):
        with np.errstate(over="ignore", invalid="ignore"):
            width = space.high.astype(np.float64) - space.low.astype(np.float64)
        if not np.isfinite(width).all():
            raise unsuitable("Random", "a Box with finite bounds", space)
        return lambda predictions, rng: rng.uniform(
            space.low, space.high, (len(predictions["action"]), *space.low.shape)
        ).astype(np.float32)
    if is_multi_binary(space):
        return lambda predictions, rng: rng.integers(0, 2, predictions["action"].shape, np.int8)
    raise unsuitable("Random", "a Discrete, MultiDiscrete or MultiBinary space, or a Box of floats", space)


class Constant:
    """Always the same action: for baselines and tests.

    Args:
        action: one environment's action: an integer (Discrete), or an array of floats (Box).
    """

    def __init__(self, action: Any) -> None:
        value = np.asarray(action)
        if value.dtype.kind not in "iuf":
            raise ArgumentError(f"Constant needs a numeric action, got {action!r}", "action", action)
        with np.errstate(over="ignore"):  # reported just below
            self.action = value.astype(np.float32 if value.dtype.kind == "f" else np.int32)
        if not (np.isfinite(self.action).all() if value.dtype.kind == "f" else np.array_equal(self.action, value)):
            message = f"Constant needs an action that {self.action.dtype} holds, got {shortened(action)}"
            raise ArgumentError(message, "action", action)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 or float32 [N, ...]; ``predictions["action"]`` gives N."""
        return np.full((len(predictions["action"]), *self.action.shape), self.action), NO_EXTRAS


class GaussianNoise(Scheduled):
    """The greedy action plus independent Gaussian noise in each component, not clipped.

    Source: the behaviour policy of TD3 (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477, algorithm 1).

    Args:
        sigma: standard deviation in the environment's units, at least 0: a number, or a schedule on
            ``global_timestep`` or over the run.
        action_space: a Box of floats.
        relative: whether sigma is in units of half the range of each component, ``(high - low) / 2``; needs a bounded
            Box.
    """

    def __init__(self, sigma: ScheduleLike, action_space: Any, relative: bool = False) -> None:
        super().__init__(sigma, "sigma")
        self.sigma, self.relative = self._schedule, flag("relative", relative)
        self._unit = noise_unit("GaussianNoise", action_space, relative)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...]."""
        greedy = predictions["action"].astype(np.float32, copy=False)
        noise = rng.standard_normal(greedy.shape, np.float32)
        return greedy + self._unit * np.float32(self.level(timestep)) * noise, NO_EXTRAS


def noise_unit(policy: str, space: Any, relative: bool) -> Array:
    """Unit of noise in a Box of floats, float32: half the range of each component if ``relative``, else 1.

    Raises:
        ArgumentError: another space, or a Box without bounds if ``relative``.
    """
    if not is_float_box(space):
        raise unsuitable(policy, "a Box of floats as action space", space)
    if not relative:
        return np.ones((), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        half = np.asarray(space.high, np.float32) / 2 - np.asarray(space.low, np.float32) / 2
    if not np.isfinite(half).all():
        raise unsuitable(f"{policy} with relative=True", "a Box with finite bounds", space)
    return half


def mask_of(predictions: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
    """``predictions["action_mask"]``, bool of this shape; ``ArgumentError`` for other shapes, and for numbers."""
    mask = predictions[ACTION_MASK]
    if mask.dtype != np.bool_ or mask.shape != shape:
        name, found = f"predictions[{ACTION_MASK!r}]", f"{mask.dtype} {list(mask.shape)}"
        raise ArgumentError(f"{name} must be bool {list(shape)}, got {found}", name, mask)
    return mask


def random_legal(mask: Array, start: int, rng: np.random.Generator) -> Array:
    """Uniformly random legal actions int32 [N] from a mask bool [N, A]; ``NO_LEGAL_ACTION`` in rows without one."""
    if len(mask) == 1:  # the usual case, in half the time
        legal = mask[0].nonzero()[0]
        one = legal[rng.integers(len(legal))] + start if len(legal) else NO_LEGAL_ACTION
        return np.array([one], np.int32)
    sums = mask.cumsum(1)
    total = sums[:, -1]
    index = (sums > (rng.random(len(mask)) * total)[:, None]).argmax(1)
    return np.where(total > 0, index + start, NO_LEGAL_ACTION).astype(np.int32)


def parts_of(space: Any, name: str = "") -> list[tuple[str, Any]]:
    """The parts of a Dict or a Tuple space, with nested names joined by ``/``; any other space as its only part."""
    inside = getattr(space, "spaces", None)
    if inside is None:
        return [(name, space)]
    items = inside.items() if isinstance(inside, Mapping) else enumerate(inside)
    return [part for key, one in items for part in parts_of(one, f"{name}/{key}" if name else str(key))]


def is_discrete(space: Any) -> bool:
    """Whether it is a Discrete space, by its attributes: acting does not import Gymnasium."""
    return hasattr(space, "n") and hasattr(space, "start")


def is_multi_discrete(space: Any) -> bool:
    """Whether it is a MultiDiscrete space, by its attributes."""
    return hasattr(space, "nvec") and hasattr(space, "start")


def is_multi_binary(space: Any) -> bool:
    """Whether it is a MultiBinary space: it has a shape, but none of the other kinds' attributes."""
    others = any(hasattr(space, name) for name in ("start", "low", "spaces"))
    return not others and isinstance(getattr(space, "shape", None), tuple)


def is_float_box(space: Any) -> bool:
    """Whether it is a Box of floats, by its attributes."""
    return hasattr(space, "low") and hasattr(space, "high") and np.dtype(space.dtype).kind == "f"


def unsuitable(policy: str, needs: str, space: Any) -> ArgumentError:
    """The error for an action space that a policy does not support."""
    return ArgumentError(f"{policy} needs {needs}, got {space!r}", "action_space", space)
