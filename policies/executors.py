"""Interface of executors, which run a traced ``model_fn``. Loads no TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..core.checks import shortened
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArraySpec, ArrayTree

Features: TypeAlias = "ArrayTree | Mapping[str, ArrayTree]"
"""Observations; for a recurrent model ``{"observation": observations, "state": {name: array}}``."""
Acted: TypeAlias = "tuple[dict[str, Any], dict[str, Array] | None]"
"""Predictions [N, ...] by name, and the next recurrent state, if the model has one. A composite ``action`` is a
dictionary of arrays."""
_PARTS: Final = "action/"


class TrainResult(NamedTuple):
    """Result of an update. ``scalars`` float32 [1 + M]: loss, then metrics in the order of ``Train.metrics``."""

    scalars: Array
    td_error: Array | None


class Executor(Protocol):
    """Runs PREDICT, and also TRAIN if it was made with it."""

    def act(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state, if the model has one.

        ``draws`` is the noise that PREDICT requests in training; without it, noise is zero.
        """

    def train(
        self, batch: Mapping[str, ArrayTree], counters: Mapping[str, float], draws: Sequence[Array]
    ) -> TrainResult:
        """Run one training step on a batch of the traced shapes; ``ValueError`` if it only acts."""

    def get_weights(self) -> dict[str, Array]:
        """Copy every variable, by name."""

    def get_predict_weights(self) -> dict[str, Array]:
        """Copy the variables used by PREDICT, by name."""

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables, or all; sets none, and raises ``ValueError``, if names, shapes or dtypes differ."""


class ActorAndLearner:
    """Combines two executors: the actor gets the learner's weights whenever its own are outdated.

    Args:
        actor: runs PREDICT.
        learner: runs TRAIN, and owns the weights.
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
        """Run one training step of the learner."""
        self._stale = True
        return self._learner.train(batch, counters, draws)

    def get_weights(self) -> dict[str, Array]:
        """Copy every variable of the learner, by name."""
        return self._learner.get_weights()

    def get_predict_weights(self) -> dict[str, Array]:
        """Copy the variables used by PREDICT, by name."""
        return self._learner.get_predict_weights()

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the learner's variables; see :meth:`Executor.set_weights`."""
        self._learner.set_weights(weights)
        self._stale = True


def action_name(part: str) -> str:
    """Name of the prediction for a part of a composite action, or for the whole action (``""``)."""
    return f"{_PARTS}{part}" if part else "action"


def action_names(names: Iterable[str]) -> list[str]:
    """Names of the predictions that form the action: ``action``, or the parts of a composite one, ``action/<name>``."""
    names = list(names)
    return ["action"] if "action" in names else [name for name in names if name.startswith(_PARTS)]


def with_parts(predictions: dict[str, Any]) -> dict[str, Any]:
    """Collect the parts of a composite action in one mapping, ``action``."""
    if "action" in predictions:
        return predictions
    parts = {name.removeprefix(_PARTS): predictions.pop(name) for name in action_names(predictions)}
    return {"action": parts, **predictions}


def arrays_of(weights: Any) -> dict[str, Array]:
    """Copies of the given weights as arrays, by name; ``ArgumentError`` for anything but a mapping."""
    if not isinstance(weights, Mapping):
        message = f"weights must be a mapping of names to arrays, as get_weights returns, got {shortened(weights)}"
        raise ArgumentError(message, "weights", weights)
    return {name: np.array(value) for name, value in weights.items()}


def check_weights(
    model: str, weights: Mapping[str, Array], predict: Mapping[str, ArraySpec], every: Mapping[str, ArraySpec]
) -> None:
    """Check that these are all of PREDICT's weights, or all of the model's.

    Args:
        model: name of the model, for the message.
        weights: the given weights.
        predict: PREDICT's variables.
        every: all variables.

    Raises:
        ValueError: a name is missing or unknown, or a shape or dtype is wrong; names it.
    """
    expected = predict if weights.keys() <= predict.keys() else every
    unknown = [name for name in weights if name not in every]
    missing = [name for name in expected if name not in weights]
    if unknown or missing:
        raise ValueError(
            f"these are not the weights of {model}: unknown {unknown}, missing {missing}; expected {', '.join(every)}"
        )
    for name, value in weights.items():
        spec = every[name]
        if (value.shape, value.dtype) != (spec.shape, spec.dtype):
            raise ValueError(f"{name} of {model} must be {spec.dtype}{spec.shape}, got {value.dtype}{value.shape}")
