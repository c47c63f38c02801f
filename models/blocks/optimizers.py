"""Optimizers by name, with learning rates that follow a schedule, and clipping by the global norm."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from ... import inputs
from ...core.checks import choice
from ...core.errors import ArgumentError
from ...core.schedules import Constant, ScheduleLike, checked_value, follows_run, make_schedule
from ...core.tensorflow_import import keras, tf
from .params import Params, one_of, optional, param, real, schedule

Tensor: TypeAlias = Any

LARGE: Final = 2**15
"""Number of elements above which memory traffic costs more than the overhead of an op."""
OPTIMIZERS: Final = {
    "adadelta": "Adadelta",
    "adafactor": "Adafactor",
    "adagrad": "Adagrad",
    "adam": "Adam",
    "adamax": "Adamax",
    "adamw": "AdamW",
    "ftrl": "Ftrl",
    "lamb": "Lamb",
    "lion": "Lion",
    "nadam": "Nadam",
    "rmsprop": "RMSprop",
    "sgd": "SGD",
}
"""Keras' optimizers that need only a learning rate, by lower-case name."""


def optimizer_class(name: str) -> Any:
    """The class of one of :data:`OPTIMIZERS`."""
    return _adam() if name == "adam" else getattr(keras.optimizers, OPTIMIZERS[name])


@functools.cache
def _adam() -> Any:
    """Define the class on use, as its base is Keras'."""

    class Adam(keras.optimizers.Adam):  # type: ignore[misc] # Keras has no types
        """Keras' Adam, with one op for each variable of a large network instead of twelve passes over the variable.

        This saves a tenth of the time of a Nature CNN's update in TensorFlow; conversion to LiteRT takes the op apart.
        It rounds differently from Keras' ops, which networks without a large variable keep.

        Source: Kingma and Ba 2015, https://arxiv.org/abs/1412.6980, algorithm 1, in the order of its section 2.
        """

        def build(self, variables: Sequence[Any]) -> None:
            """Create the moments of these variables."""
            super().build(variables)
            self._in_one_op = any(math.prod(variable.shape) >= LARGE for variable in variables)

        def update_step(self, gradient: Tensor, variable: Any, learning_rate: Tensor) -> None:
            """Change a variable and its two moments."""
            if not self._in_one_op:
                super().update_step(gradient, variable, learning_rate)
                return
            index = self._get_variable_index(variable)
            step = tf.cast(self.iterations + 1, variable.dtype)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=self._momentums[index].value.handle,
                v=self._velocities[index].value.handle,
                beta1_power=tf.pow(self.beta_1, step),
                beta2_power=tf.pow(self.beta_2, step),
                lr=tf.cast(learning_rate, variable.dtype),
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon,
                grad=tf.convert_to_tensor(gradient),  # an embedding's gradient is in slices
            )

    return Adam


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizerParams(Params):
    """The parameters of an optimizer."""

    optimizer: str = param("adam", "name of the optimizer in lower case", one_of(OPTIMIZERS, "an optimizer of Keras"))
    learning_rate: ScheduleLike = param(
        1e-3,
        "learning rate of the optimizer; schedules follow `global_step`; in Python, Keras' schedules work too",
        schedule(at_least=0),
    )
    optimizer_epsilon: float | None = param(
        None,
        "epsilon, added to the denominator of a step, for optimizers that have one; `null`: Keras' 1e-7",
        optional(real(above=0)),
    )
    max_gradient_norm: float | None = param(
        None, "global norm above which gradients are scaled down to it; `null` does not clip", optional(real(above=0))
    )


def learning_rate_at(learning_rate: ScheduleLike, labels: Mapping[str, Any]) -> Tensor:
    """The learning rate of an update, for optimizer and metrics.

    Args:
        learning_rate: a number, or a schedule on ``global_step`` or over the run.
        labels: with ``global_step`` and ``progress`` before the update.

    Returns:
        float32 scalar.
    """
    return scheduled_value(learning_rate, "learning_rate", labels, at_least=0)


def scheduled_value(
    value: ScheduleLike, name: str, labels: Mapping[str, Any], *, at_least: float = -math.inf
) -> Tensor:
    """The value of a schedule, axonrl's or Keras', in an update.

    Args:
        value: a number, a mapping, or a schedule.
        name: the parameter's name; a number given for it in the run's params is an input of TRAIN.
        labels: with ``global_step`` (int64 scalar) and ``progress`` (float32 scalar) before the update.
        at_least: the smallest value allowed.

    Returns:
        float32 scalar.

    Raises:
        ValueError: ``value`` is not a schedule, or cannot be computed in a graph.
    """
    if isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
        return tf.cast(value(labels["global_step"]), tf.float32)
    function = make_schedule(value, name, at_least=at_least)
    if isinstance(function, Constant):
        return keras.ops.cast(inputs.number(name, function.value), "float32")
    time = labels["progress" if follows_run(function) else "global_step"]
    try:
        inspect.signature(function).bind(time, ops=keras.ops)
    except (TypeError, ValueError):  # ValueError: a function written in C has no signature
        raise ArgumentError(
            f"{name} must be a number, a mapping, a schedule of Keras', or a callable (t, ops=...) that computes with"
            f" ops; got {value!r}",
            name,
            value,
        ) from None
    found = function(time, ops=keras.ops)
    return found if tf.is_tensor(found) else checked_value(name, function, found, at_least=at_least)


def make_optimizer(
    name: str, learning_rate: Tensor, epsilon: float | None = None, momentum: float | None = None
) -> Any:
    """Make a Keras optimizer.

    Args:
        name: one of :data:`OPTIMIZERS`.
        learning_rate: float32 scalar of this update. It is computed in the graph and is not a variable of the
            optimizer, so a resumed run follows its schedule.
        epsilon: added to the denominator of a step; None keeps the optimizer's default.
        momentum: ``beta_1``, decay of the gradients' moving average; None keeps the optimizer's default.

    Raises:
        ArgumentError: the name is unknown (suggests the nearest), or that optimizer has no epsilon or no ``beta_1``.
    """
    made = optimizer_class(choice("optimizer", name, OPTIMIZERS))
    given = {"epsilon": ("optimizer_epsilon", epsilon), "beta_1": ("momentum", momentum)}
    settings = {keyword: value for keyword, (_, value) in given.items() if value is not None}
    for keyword, value in settings.items():
        if keyword not in inspect.signature(made).parameters:
            argument = given[keyword][0]
            message = f"optimizer {name!r} has no {keyword}, got {argument} {value}: leave it out, or set it to null"
            raise ArgumentError(message, argument, value)
    return made(lambda: learning_rate, **settings)


def clip_by_global_norm(gradients: Sequence[Tensor], max_norm: float | None) -> tuple[list[Tensor], Tensor]:
    """Scale gradients down together so that their global norm is at most ``max_norm``.

    Source: Pascanu, Mikolov and Bengio 2013, https://arxiv.org/abs/1211.5063, algorithm 1.

    Args:
        gradients: float tensors of any shapes.
        max_norm: above 0, or ``None`` to leave them unchanged.

    Returns:
        the gradients, and their global norm before clipping (float scalar).
    """
    norm = tf.linalg.global_norm(gradients)
    if max_norm is None:
        return list(gradients), norm
    clipped, _ = tf.clip_by_global_norm(gradients, max_norm, use_norm=norm)
    return clipped, norm
