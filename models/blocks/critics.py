"""Critics: networks from observations and actions to values, or from observations to the values of all actions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ...core.initializers import Initializer
from ...core.tensorflow_import import keras, tf
from . import losses
from .networks import DenseParams, Network
from .train_step import mean_error

Tensor: TypeAlias = Any


def critics_loss(target: Tensor, q_values: Sequence[Tensor], batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The sum of the critics' mean halved squared errors, and the mean of their TD errors, [B].

    No gradient flows into ``target``.
    """
    target = tf.stop_gradient(target)
    td_errors = [target - q_value for q_value in q_values]
    loss = mean_error(tf.add_n([losses.squared(td_error) for td_error in td_errors]), batch)
    return loss, tf.add_n(td_errors) / len(td_errors)


class Critics(Protocol):
    """Q functions of observation and action."""

    @property
    def variables(self) -> list[Any]:
        """Trained variables in the order of creation."""

    def __call__(self, observation: Any, action: Any, /) -> list[Tensor]:
        """Each one's values, float32 [B]."""


class TwinCritics:
    """Two independent Q functions of observation and action. All variables are created at once.

    Source: Fujimoto, van Hoof and Meger 2018, https://arxiv.org/abs/1802.09477, section 4.2.

    Args:
        name: prefix of the names of the variables: ``critic`` for ``critic1`` and ``critic2``.
        shape: shape of an observation and an action, concatenated; of an observation alone with ``outputs``.
        params: parameters of the layers.
        outputs: number of actions, if all are valued at once; None for actions that are inputs.
        zeros: whether kernels start at zero, for targets.
    """

    def __init__(
        self, name: str, shape: Sequence[int], params: DenseParams, *, outputs: int | None = None, zeros: bool = False
    ) -> None:
        heads = {"q_value": 1} if outputs is None else {"q_values": outputs}
        self._networks = [Network(f"{name}{i}", shape, heads, params, zeros=zeros) for i in (1, 2)]

    @property
    def variables(self) -> list[Any]:
        """Trained variables in the order of creation."""
        return [variable for network in self._networks for variable in network.variables]

    def __call__(self, observation: Tensor, action: Tensor | None = None, *, training: bool = False) -> list[Tensor]:
        """The values of both critics.

        Args:
            observation: float32 [B, O].
            action: float32 [B, A]; None if all actions are valued.
            training: for layers that differ in training, such as batch normalisation.

        Returns:
            float32 [B] each, or [B, outputs].
        """
        if action is None:
            return [network(observation, training=training)["q_values"] for network in self._networks]
        inputs = tf.concat([observation, action], axis=-1)  # [B, O + A]
        return [tf.squeeze(network(inputs, training=training)["q_value"], axis=-1) for network in self._networks]


class CriticEnsemble:
    """Independent Q functions, computed together: each layer is one batched matrix product.

    Source: Chen, Wang, Zhou and Ross 2021, https://arxiv.org/abs/2101.05982, section 2.

    Args:
        name: prefix of the names of the variables, each of which holds the weights of all critics.
        inputs: size of an observation and an action, concatenated; of an observation alone with ``outputs``.
        params: parameters of the layers.
        count: number of critics, N.
        outputs: number of values of each: of all actions at once, or quantiles of one; None for one value.
        zeros: whether kernels start at zero, for targets.
    """

    def __init__(
        self,
        name: str,
        inputs: int,
        params: DenseParams,
        count: int,
        *,
        outputs: int | None = None,
        zeros: bool = False,
    ) -> None:
        self._count, self._single = count, outputs is None
        self._activation = keras.activations.get(params.activation)
        self._layers: list[tuple[Any, Any]] = []
        initializer = Initializer("zeros" if zeros else params.initializer, each=True)
        sizes = [inputs, *(params.hidden or ()), outputs or 1]
        for index, (rows, columns) in enumerate(itertools.pairwise(sizes), start=1):
            with keras.name_scope(name), keras.name_scope(f"dense{index}"):
                kernel = keras.Variable(initializer, (count, rows, columns), name="kernel")
                self._layers.append((kernel, keras.Variable("zeros", (count, 1, columns), name="bias")))

    @property
    def variables(self) -> list[Any]:
        """Trained variables in the order of creation."""
        return [variable for layer in self._layers for variable in layer]

    def __call__(self, observation: Tensor, action: Tensor | None = None) -> list[Tensor]:
        """The values of each critic; see :meth:`TwinCritics.__call__`."""
        inputs = observation if action is None else tf.concat([observation, action], axis=-1)
        values = tf.tile(inputs[tf.newaxis], [self._count, 1, 1])  # [N, B, inputs]
        for kernel, bias in self._layers[:-1]:
            values = self._activation(tf.matmul(values, kernel.value) + bias.value)
        kernel, bias = self._layers[-1]
        values = tf.matmul(values, kernel.value) + bias.value  # [N, B, outputs or 1]
        found: list[Tensor] = tf.unstack(tf.squeeze(values, axis=-1) if self._single else values)
        return found
