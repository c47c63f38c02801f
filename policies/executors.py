"""The interface of what runs a traced ``model_fn``. Loads no TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..core.protocols import Array, ArraySpec, ArrayTree

Features: TypeAlias = "ArrayTree | Mapping[str, ArrayTree]"
"""Observations; for a recurrent model ``{"observation": observations, "state": {name: array}}``."""
Acted: TypeAlias = "tuple[dict[str, Any], dict[str, Array] | None]"
"""Predictions [N, ...] by name, and the next recurrent state of a model that has one. A composite ``action`` is a
dictionary of arrays."""
_PARTS: Final = "action/"


class TrainResult(NamedTuple):
    """One update. ``scalars`` float32 [1 + M]: the loss, then the metrics in the order of ``Train.metrics``."""

    scalars: Array
    td_error: Array | None


class Executor(Protocol):
    """Runs PREDICT, and TRAIN if it was made for that."""

    def act(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state of a model that has one.

        ``draws`` is the noise that PREDICT requests, as training draws it; without it, noise is zero.
        """

    def train(
        self, batch: Mapping[str, ArrayTree], counters: Mapping[str, float], draws: Sequence[Array]
    ) -> TrainResult:
        """One training step on a batch of the traced shapes; ``ValueError`` if it only acts."""

    def get_weights(self) -> dict[str, Array]:
        """Every variable by name, copied."""

    def get_predict_weights(self) -> dict[str, Array]:
        """The variables that PREDICT uses, by name, copied."""

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables, or all; ``ValueError``, and nothing is set, where names, shapes or dtypes differ."""


class ActorAndLearner:
    """Two executors as one: the actor gets the learner's weights when its own are outdated.

    Args:
        actor: runs PREDICT.
        learner: runs TRAIN; the weights are its own.
    """

    def __init__(self, actor: Executor, learner: Executor) -> None:
        self._actor = actor
        self._learner = learner
        self._stale = True

    def act(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """The actor's predictions, with the learner's weights."""
        if self._stale:
            self._actor.set_weights(self._learner.get_predict_weights())
            self._stale = False
        return self._actor.act(features, draws)

    def train(
        self, batch: Mapping[str, ArrayTree], counters: Mapping[str, float], draws: Sequence[Array]
    ) -> TrainResult:
        """One training step of the learner."""
        self._stale = True
        return self._learner.train(batch, counters, draws)

    def get_weights(self) -> dict[str, Array]:
        """Every variable of the learner by name, copied."""
        return self._learner.get_weights()

    def get_predict_weights(self) -> dict[str, Array]:
        """The variables that PREDICT uses, by name, copied."""
        return self._learner.get_predict_weights()

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the learner's variables; as every executor."""
        self._learner.set_weights(weights)
        self._stale = True


def action_names(names: Iterable[str]) -> list[str]:
    """Which predictions of a program are its action: ``action``, or the parts of a composite one, ``action/<name>``."""
    names = list(names)
    return ["action"] if "action" in names else [name for name in names if name.startswith(_PARTS)]


def with_parts(predictions: dict[str, Any]) -> dict[str, Any]:
    """Predictions of a program, by name, with the parts of a composite action as one mapping, ``action``."""
    if "action" in predictions:
        return predictions
    parts = {name.removeprefix(_PARTS): predictions.pop(name) for name in action_names(predictions)}
    return {"action": parts, **predictions}


def leaves(tree: Any) -> list[Array]:
    """The arrays of a tree, in the order in which TensorFlow flattens it: dictionaries by sorted keys."""
    if isinstance(tree, np.ndarray):  # first: this is called at every timestep
        return [tree]
    if isinstance(tree, Mapping):
        return [array for key in sorted(tree) for array in leaves(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [array for item in tree for array in leaves(item)]
    return [tree]


def check_weights(
    model: str, weights: Mapping[str, Array], predict: Mapping[str, ArraySpec], every: Mapping[str, ArraySpec]
) -> None:
    """Are these all of PREDICT's weights, or all of the model's?

    Args:
        model: whose, for the message.
        weights: what was given.
        predict: PREDICT's variables.
        every: all variables.

    Raises:
        ValueError: a name too many or too few, another shape or dtype; names it.
    """
    expected = predict if weights.keys() <= predict.keys() else every
    unknown = [name for name in weights if name not in every]
    missing = [name for name in expected if name not in weights]
    if unknown or missing:
        raise ValueError(
            f"these are not the weights of {model}: unknown {unknown}, missing {missing}; it has {', '.join(every)}"
        )
    for name, value in weights.items():
        spec = every[name]
        if (value.shape, value.dtype) != (spec.shape, spec.dtype):
            raise ValueError(f"{name} of {model} is {spec.dtype}{spec.shape}, given was {value.dtype}{value.shape}")
