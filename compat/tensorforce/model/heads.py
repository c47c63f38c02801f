"""Heads: a distribution over each action, or values of its choices, from a network's output.

Shapes in comments: B is the batch, N the components of an action (the product of its shape), K the values of an int.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import tensorflow as tf

from ....models.blocks import losses, masks
from ....models.blocks.distributions import Bernoulli, Beta, Categorical, Distribution, Gaussian
from ...common.layers.layer import Step
from ...common.layers.layers import Linear
from ...common.layers.scopes import scopes
from ...common.value_specs import ValueSpec

Tensor: TypeAlias = Any
Outputs: TypeAlias = Mapping[str, Tensor]
"""Parameters of a distribution by name in predictions: float32 [B, N] or [B, N, K]."""

_HALF_LOG_2PI: Final = 0.5 * math.log(2.0 * math.pi)
_LOG_STDDEV: Final = math.log(1e6)
"""Bound of the magnitude of a log standard deviation."""
STEP: Final = Step(training=False)
"""How linear layers on top of networks are called."""


def linear(name: str, inputs: int, outputs: int, axes: Sequence[int] = ()) -> Linear:
    """A linear layer on vectors, or on one vector at each place, in a name scope."""
    with scopes(name):
        return Linear(name, ValueSpec("", "float", (*axes, inputs)), outputs)


class Head:
    """The distribution over one action; its constructor creates all its variables.

    Args:
        spec: spec of the action.
        size: size of the network's output.
        axes: leading axes of the network's output, which the action has too.
        valued: are action values learnt?
        dueling: do they consist of a state's value and advantages?
    """

    def __init__(self, spec: ValueSpec, size: int, axes: Sequence[int] = (), *, valued: bool, dueling: bool) -> None:
        self.spec, self.size, self.choices = spec, math.prod(spec.shape), spec.num_values or 1
        self._axes, self._layers = axes, dict[str, Linear]()
        for name, outputs in self._sizes(valued, dueling).items():
            self._layers[name] = linear(name, size, self.size * outputs // math.prod(axes), axes)

    def _sizes(self, valued: bool, dueling: bool) -> dict[str, int]:
        """Names of the linear layers, and the outputs of each per component."""
        raise NotImplementedError

    def _apply(self, name: str, features: Tensor) -> Tensor:
        """The outputs of a layer for all components, [B, ...], from the network's output."""
        found = self._layers[name](features, STEP)
        return tf.reshape(found, [-1, math.prod(found.shape[1:])]) if self._axes else found

    @property
    def variables(self) -> list[Any]:
        """Trained variables, in creation order."""
        return [variable for layer in self._layers.values() for variable in layer.variables]

    def __call__(self, features: Tensor) -> dict[str, Tensor]:
        """Distribution parameters, [B, N] or [B, N, K], from the network's output [B, size]."""
        return self._outputs(features)

    def _outputs(self, features: Tensor) -> dict[str, Tensor]:
        return {name: self._apply(name, features) for name in self._layers}

    def distribution(self, outputs: Outputs, mask: Tensor | None) -> Distribution:
        """Distribution over each component: log-probabilities, entropies and divergences are [B, N].

        Args:
            outputs: outputs of this head.
            mask: bool [B, N, K], the legal values of an int; None: all.
        """
        raise NotImplementedError

    def to_distribution(self, action: Tensor) -> Tensor:
        """Actions [B, *shape] in the distribution's form."""
        return tf.reshape(tf.cast(action, tf.float32), [-1, self.size, 1])

    def greedy(self, outputs: Outputs, mask: Tensor | None) -> Tensor:
        """The greedy action, in the agent's units, [B, *shape]: int32, float32 or bool."""
        return self._to_shape(self.distribution(outputs, mask).mode())

    def _values(self, outputs: Outputs) -> Tensor:
        """Values of all choices, float32 [B, N, K]; of a bool, False and True. Floats have none."""
        raise NotImplementedError

    def value_of(self, outputs: Outputs, action: Tensor) -> Tensor:
        """The value of actions [B, *shape], float32 [B, N]."""
        return _values_of_choices(self._values(outputs), self.to_distribution(action))

    def best_value(self, outputs: Outputs, mask: Tensor | None, selector: Outputs | None) -> Tensor:
        """The highest legal value, float32 [B, N]; or the value of another estimate's best choice."""
        values = self._values(outputs)
        if selector is None:
            return masks.highest(values, mask)
        return _values_of_choices(values, masks.best(self._values(selector), mask))

    def expected_value(self, outputs: Outputs, acting: Distribution) -> Tensor:
        """The mean of values over a distribution, float32 [B, N]."""
        values = self._values(outputs)
        if isinstance(acting, Categorical):
            return acting.expectation(values)
        log_prob = acting.log_prob(tf.ones_like(values[:, :, :1]))  # [B, N], of True
        return values[:, :, 0] + tf.exp(log_prob) * (values[:, :, 1] - values[:, :, 0])

    def shaped(self, outputs: Outputs) -> dict[str, Tensor]:
        """Outputs in the action's shape: [B, *shape] or [B, *shape, K]."""
        return {name: self._to_shape(x, *x.shape[2:]) for name, x in outputs.items() if name != "states-value"}

    def _to_shape(self, x: Tensor, *more: int) -> Tensor:
        return tf.reshape(x, [-1, *self.spec.shape, *more])


class CategoricalHead(Head):
    """One of K values for each component; ``logits`` are values of actions where these are learnt."""

    def _sizes(self, valued: bool, dueling: bool) -> dict[str, int]:
        return {"logits": self.choices, **({"states-value": 1} if dueling else {})}

    def _outputs(self, features: Tensor) -> dict[str, Tensor]:
        logits = tf.reshape(self._apply("logits", features), [-1, self.size, self.choices])
        if "states-value" in self._layers:
            logits = losses.dueling(self._apply("states-value", features)[:, :, tf.newaxis], logits, "mean")
        return {"logits": logits}

    def distribution(self, outputs: Outputs, mask: Tensor | None) -> Distribution:
        """Distribution over each component."""
        return Categorical(outputs["logits"], mask)

    def to_distribution(self, action: Tensor) -> Tensor:
        """Actions as int32 [B, N]."""
        return tf.reshape(tf.cast(action, tf.int32), [-1, self.size])

    def _values(self, outputs: Outputs) -> Tensor:
        return outputs["logits"]


class BernoulliHead(Head):
    """A Bernoulli distribution per component. Learnt action values are a state's value plus or minus half a logit."""

    def _sizes(self, valued: bool, dueling: bool) -> dict[str, int]:
        return {"logit": 1, **({"states-value": 1} if valued else {})}

    def distribution(self, outputs: Outputs, mask: Tensor | None) -> Distribution:
        """Distribution over each component."""
        return Bernoulli(outputs["logit"][:, :, tf.newaxis])

    def greedy(self, outputs: Outputs, mask: Tensor | None) -> Tensor:
        """True where the logit is above 0, bool [B, *shape]."""
        return self._to_shape(outputs["logit"] > 0)

    def _values(self, outputs: Outputs) -> Tensor:
        value, half = outputs["states-value"], 0.5 * outputs["logit"]
        return tf.stack([value - half, value + half], axis=-1)


class GaussianHead(Head):
    """A normal distribution per component, with its mean within the bounds.

    The value of an action is its log-likelihood plus the highest log-likelihood, as in Tensorforce.
    """

    def _sizes(self, valued: bool, dueling: bool) -> dict[str, int]:
        return {"mean": 1, "stddev": 1}

    def _outputs(self, features: Tensor) -> dict[str, Tensor]:
        mean, low, high = self._apply("mean", features), self.spec.min_value, self.spec.max_value
        if low is not None and high is not None:
            mean = low + 0.5 * (high - low) * (tf.tanh(mean) + 1.0)
        return {
            "mean": mean,
            "log_stddev": tf.clip_by_value(self._apply("stddev", features), -_LOG_STDDEV, _LOG_STDDEV),
        }

    def distribution(self, outputs: Outputs, mask: Tensor | None) -> Distribution:
        """Distribution over each component."""
        return Gaussian(outputs["mean"][:, :, tf.newaxis], outputs["log_stddev"][:, :, tf.newaxis])

    def value_of(self, outputs: Outputs, action: Tensor) -> Tensor:
        """Log-likelihood of actions [B, *shape] plus the highest log-likelihood, float32 [B, N]."""
        highest = -outputs["log_stddev"] - _HALF_LOG_2PI
        return self.distribution(outputs, None).log_prob(self.to_distribution(action)) + highest

    def best_value(self, outputs: Outputs, mask: Tensor | None, selector: Outputs | None) -> Tensor:
        """The mean's value, float32 [B, N]."""
        return self.value_of(outputs, outputs["mean"])

    def expected_value(self, outputs: Outputs, acting: Distribution) -> Tensor:
        """Value of the likeliest action, float32 [B, N]."""
        return self.value_of(outputs, acting.mode())

    def shaped(self, outputs: Outputs) -> dict[str, Tensor]:
        """``mean`` and ``stddev``, [B, *shape]."""
        return super().shaped({"mean": outputs["mean"], "stddev": tf.exp(outputs["log_stddev"])})


class BetaHead(Head):
    """A beta distribution per component, scaled to the action's bounds; its greedy action is the mean.

    Both parameters are at least 1, so that there is one peak.
    """

    def _sizes(self, valued: bool, dueling: bool) -> dict[str, int]:
        return {"alpha": 1, "beta": 1}

    def _outputs(self, features: Tensor) -> dict[str, Tensor]:
        return {name: 1.0 + tf.nn.softplus(x) for name, x in super()._outputs(features).items()}

    def distribution(self, outputs: Outputs, mask: Tensor | None) -> Distribution:
        """Distribution over each component."""
        return self._beta(*(outputs[name][:, :, tf.newaxis] for name in ("alpha", "beta")))

    def greedy(self, outputs: Outputs, mask: Tensor | None) -> Tensor:
        """The mean, float32 [B, *shape]."""
        return self._to_shape(self._beta(outputs["alpha"], outputs["beta"]).mean())

    def _beta(self, alpha: Tensor, beta: Tensor) -> Beta:
        low, high = self.spec.min_value, self.spec.max_value
        return Beta(alpha, beta, 0.0 if low is None else low, 1.0 if high is None else high)


def _values_of_choices(values: Tensor, index: Tensor) -> Tensor:
    """The values [B, N, K] of choices [B, N] (of bools float32 [B, N, 1]), float32 [B, N]."""
    _, components, choices = values.shape
    return tf.reduce_sum(values * tf.one_hot(tf.reshape(tf.cast(index, tf.int32), [-1, components]), choices), axis=-1)


HEADS: Final[Mapping[str, type[Head]]] = {
    "bernoulli": BernoulliHead,
    "beta": BetaHead,
    "categorical": CategoricalHead,
    "gaussian": GaussianHead,
}
"""Heads by type of distribution."""
