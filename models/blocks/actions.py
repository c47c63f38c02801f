"""Kinds of action spaces: network outputs of a policy, their distribution, and conversion to the environment's units.

A kind for stochastic policies needs ``num_outputs`` of a network and ``num_scales`` standard deviations that are
variables; ``distribution_parameters`` turns both into the named parameters of the distribution, and ``shaped`` gives
these the shapes of predictions.

Shapes in comments: B is the batch, D the components of a continuous action, K the choices of a MultiDiscrete one.
Internally, actions are int32 [B] from 0, int32 [B, K] from 0 or float32 [B, D] (bits too); the environment's have the
space's shape and begin at its ``start``. Actions of Dict and Tuple spaces are dictionaries of these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from ... import explorations
from ...core.errors import ArgumentError
from ...core.protocols import ACTION_MASK, Exploration
from ...core.tensorflow_import import tf
from . import masks
from .box_actions import Box, SquashedBox, StateDependentBox, flat, unflatten
from .distributions import Bernoulli, Categorical, Distribution, Joint, MultiCategorical

Tensor: TypeAlias = Any


class _Logits:
    """Base of kinds whose distributions depend on logits alone."""

    num_scales = 0

    def distribution_parameters(self, outputs: Tensor, log_std: Tensor | None) -> dict[str, Tensor]:
        """``logits``, the outputs themselves."""
        return {"logits": outputs}

    def shaped(self, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs unchanged: logits do not have the space's shape."""
        return dict(outputs)


class Discrete(_Logits):
    """One of n actions.

    Args:
        space: a Discrete space.
        algorithm: for the error message.

    Raises:
        ArgumentError: the space is of another kind.
    """

    def __init__(self, space: Any, algorithm: str) -> None:
        if not isinstance(space, spaces.Discrete):
            message = f"{algorithm} needs a Discrete action space, got {space!r}"
            raise ArgumentError(message, "action_space", space)
        self.space = space
        self.num_outputs = int(space.n)
        self._start = int(space.start)

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """Distribution from ``logits`` [B, n], and from ``action_mask`` if there is one."""
        return Categorical(outputs["logits"], outputs.get(ACTION_MASK))

    def exploration(self) -> Exploration:
        """Draws from this distribution."""
        return explorations.Categorical(self.space)

    def greedy(self, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """The best legal action in the environment's units, int32 [B], from values [B, n] and a mask bool [B, n]."""
        return masks.or_none(self.to_environment(masks.best(values, mask)), mask)

    def likeliest(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Mode of the distribution in the environment's units, int32 [B]."""
        return self.greedy(outputs["logits"], outputs.get(ACTION_MASK))

    def to_environment(self, action: Tensor) -> Tensor:
        """Actions of the space, int32 [B], from those counted from 0."""
        return action + self._start

    def from_environment(self, action: Tensor) -> Tensor:
        """Actions counted from 0, int32 [B], from those of the space."""
        return action - self._start


class MultiDiscrete(_Logits):
    """Several independent choices.

    Args:
        space: a MultiDiscrete space.
    """

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        self.space = space
        self._sizes = [int(n) for n in space.nvec.flat]
        self._start = space.start.astype(np.int32).reshape(-1)  # [K]
        self.num_outputs = sum(self._sizes)

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """Distribution from concatenated ``logits`` [B, sum of n], and from ``action_mask`` [B, sum of n] if given."""
        return MultiCategorical(outputs["logits"], self._sizes, outputs.get(ACTION_MASK))

    def likeliest(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Mode of the distribution in the environment's units, int32 [B, ...]."""
        action = self.to_environment(self.distribution(outputs).mode())
        mask = outputs.get(ACTION_MASK)
        if mask is None:
            return action
        # Slices instead of a split: LiteRT does not split bools.
        ends = np.cumsum(self._sizes).tolist()
        parts = [mask[:, end - size : end] for size, end in zip(self._sizes, ends, strict=True)]
        each = [masks.or_none(flat(action)[:, k], part) for k, part in enumerate(parts)]
        return unflatten(tf.stack(each, axis=-1), self.space)

    def exploration(self) -> Exploration:
        """Draws from this distribution."""
        return explorations.MultiCategorical(self.space)

    def to_environment(self, action: Tensor) -> Tensor:
        """int32 [B, ...] from int32 [B, K]."""
        return unflatten(action + self._start, self.space)

    def from_environment(self, action: Tensor) -> Tensor:
        """int32 [B, K] from int32 [B, ...]."""
        return flat(action) - self._start


class MultiBinary(_Logits):
    """Independent bits.

    Args:
        space: a MultiBinary space.
    """

    def __init__(self, space: spaces.MultiBinary) -> None:
        self.space = space
        self.num_outputs = math.prod(space.shape)

    def shaped(self, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Outputs in the shape of the space's actions, [B, ...]."""
        return {name: unflatten(values, self.space) for name, values in outputs.items()}

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """Distribution from ``logits`` [B, D]."""
        return Bernoulli(outputs["logits"])

    def likeliest(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """The mode of the distribution, int32 [B, ...]."""
        return unflatten(self.distribution(outputs).mode(), self.space)

    def exploration(self) -> Exploration:
        """Draws from this distribution."""
        return explorations.Bernoulli(self.space)

    def from_environment(self, action: Tensor) -> Tensor:
        """float32 [B, D] from int8 or float32 [B, ...]."""
        return flat(tf.cast(action, tf.float32))


class Composite:
    """The actions of a Dict or a Tuple space: each leaf has its own distribution.

    Parameters of the distributions have the names that explorations read: ``logits/left/arm`` for the leaf
    ``left/arm``.

    Args:
        space: a Dict or a Tuple space.
        algorithm: for the error message.

    Raises:
        ArgumentError: there is no policy for a leaf.
    """

    def __init__(self, space: Any, algorithm: str) -> None:
        self.space = space
        self._parts = {name: _leaf_actions(leaf, algorithm, space) for name, leaf in _leaves(space, "")}
        self.num_outputs = sum(part.num_outputs for part in self._parts.values())
        self.num_scales = sum(part.num_scales for part in self._parts.values())

    def distribution_parameters(self, outputs: Tensor, log_std: Tensor | None) -> dict[str, Tensor]:
        """Parameters of each leaf's distribution, from the concatenated outputs and scales of all leaves."""
        parts = self._parts.values()
        scaled = [part.num_scales for part in parts if part.num_scales]
        scales = iter(tf.split(tf.convert_to_tensor(log_std), scaled) if scaled else ())
        found: dict[str, Tensor] = {}
        cut = tf.split(outputs, [part.num_outputs for part in parts], axis=-1)
        for (name, part), own in zip(self._parts.items(), cut, strict=True):
            parameters = part.distribution_parameters(own, next(scales) if part.num_scales else None)
            found |= {f"{key}/{name}": value for key, value in parameters.items()}
        return found

    def shaped(self, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Parameters of each leaf's distribution, in the shape of the leaf."""
        return {
            f"{key}/{name}": value
            for name, part in self._parts.items()
            for key, value in part.shaped(_of(outputs, name)).items()
        }

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """Joint distribution of all leaves."""
        return Joint({name: part.distribution(_of(outputs, name)) for name, part in self._parts.items()})

    def likeliest(self, outputs: Mapping[str, Tensor]) -> dict[str, Any]:
        """The likeliest action of each leaf, in the environment's units."""
        return {name: part.likeliest(_of(outputs, name)) for name, part in self._parts.items()}

    def exploration(self) -> Exploration:
        """Draws from these distributions."""
        return explorations.Composite(self.space)

    def from_environment(self, action: Mapping[str, Tensor]) -> dict[str, Any]:
        """Internal action of each leaf."""
        return {name: part.from_environment(action[name]) for name, part in self._parts.items()}


Leaf: TypeAlias = Discrete | MultiDiscrete | MultiBinary | Box
Actions: TypeAlias = Leaf | Composite | SquashedBox | StateDependentBox
"""Kinds of actions for stochastic policies."""


BOX_POLICIES = ("gaussian", "squashed", "state_dependent")


def actions_of(space: Any, algorithm: str, box_policy: str = "gaussian", resample_every: int | None = None) -> Actions:
    """The kind of actions for a space.

    Args:
        space: an action space.
        algorithm: for error messages.
        box_policy: one of :data:`BOX_POLICIES`; ``squashed`` is for a bounded Box.
        resample_every: timesteps between redraws of ``state_dependent`` noise; None: once per episode.

    Raises:
        ArgumentError: there is no policy for the space.
    """
    if box_policy == "squashed":
        return SquashedBox(space, f"{algorithm} with box_policy 'squashed'")
    if box_policy == "state_dependent":
        return StateDependentBox(space, f"{algorithm} with box_policy 'state_dependent'", resample_every)
    return (
        Composite(space, algorithm)
        if isinstance(space, spaces.Dict | spaces.Tuple)
        else _leaf_actions(space, algorithm, space)
    )


def _leaf_actions(space: Any, algorithm: str, whole: Any) -> Leaf:
    match space:
        case spaces.Discrete():
            return Discrete(space, algorithm)
        case spaces.MultiDiscrete():
            return MultiDiscrete(space)
        case spaces.MultiBinary():
            return MultiBinary(space)
        case spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return Box(space)
    message = (
        f"the action space of {algorithm} must be Discrete, MultiDiscrete, MultiBinary, a Box of floats, or a Dict or"
        f" Tuple of these, got {whole!r}"
    )
    raise ArgumentError(message, "action_space", whole)


def _leaves(space: Any, name: str) -> list[tuple[str, Any]]:
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [(name, space)]
    items = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    return [leaf for key, part in items for leaf in _leaves(part, f"{name}/{key}" if name else str(key))]


def _of(outputs: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Parameters of one leaf's distribution."""
    return {key.partition("/")[0]: value for key, value in outputs.items() if key.partition("/")[2] == name}
