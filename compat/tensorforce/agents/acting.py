"""Choice of actions on the host: sampled from a model's predictions, uniformly random, or constant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ....core.checks import all_finite
from ....core.errors import NonFiniteError
from ....core.protocols import Array
from ....explorations.policies import random_legal
from ....explorations.sampling import drawn_index, not_finite
from ...common.value_specs import ValueSpec
from ..processing.parameters import Counts, Parameter
from ..spaces.errors import TensorforceError, number, refuse_unknown
from ..spaces.specs import MASK, Values

if TYPE_CHECKING:
    from .learner import Learner

_MAIN, _INDEPENDENT, _PARAMETERS = 11, 12, 13
"""Numbers that, with the seed, distinguish an agent's generators."""
NOISE: Final = "variable-noise"
_LOWEST: Final = float(np.finfo(np.float32).min)


class Levels(NamedTuple):
    """Levels of randomness of an act."""

    temperature: Mapping[str, float]
    """Temperature by action: 0 is greedy, 1 samples from the distribution."""
    exploration: Mapping[str, float]
    """Exploration by action: probability of a uniform action, or standard deviation of noise on a float."""


class Acted(NamedTuple):
    """Inputs of a draw of actions for B rows; the last ones are kept for queries."""

    predictions: Mapping[str, Array]
    features: Mapping[str, Array]
    """Inputs of the predictions, including masks."""
    levels: Levels
    noise: float = 0.0
    """Standard deviation of the noise on the weights."""


class Chooser:
    """Draws actions from predictions.

    Args:
        actions: specs of the actions.
        distributions: distribution of each action: ``categorical``, ``bernoulli``, ``gaussian`` or ``beta``; or,
            without a model, ``random`` (uniform over legal values) or ``constant``.
        constants: values of ``constant`` actions; the default is the first legal value, False, 0, or the middle of the
            bounds.
    """

    def __init__(
        self, actions: Values, distributions: Mapping[str, str], constants: Mapping[str, Array] | None = None
    ) -> None:
        self.distributions = dict(distributions)
        self._actions = []
        for name, spec in actions.flat.items():
            given = (constants or {}).get(name)
            draw = _DRAWS.get(distributions[name]) or functools.partial(_constant, given)
            self._actions.append((name, spec, draw))
        self.greedy = Levels(dict.fromkeys(actions.flat, 0.0), dict.fromkeys(actions.flat, 0.0))

    def __call__(self, acted: Acted, rng: np.random.Generator) -> dict[str, Array]:
        """Actions [B, *shape] by flat name; with a model, levels of 0 make no random draws.

        Raises:
            NonFiniteError: a prediction is NaN or infinite.
        """
        for name, array in acted.predictions.items():
            if name != "action" and not all_finite(array):
                raise NonFiniteError(not_finite(name, array))
        return {name: draw(spec, acted, rng) for name, spec, draw in self._actions}

    def parameters(self, acted: Acted | None) -> dict[str, Array]:
        """Query values [B, ...] of an act by name: ``<a>-distribution-probabilities`` and so on."""
        if acted is None:
            return {}
        return {
            f"{name}-distribution-{what}": shown(name, acted)
            for name, kind in self.distributions.items()
            for what, shown in _SHOWN.get(kind, {}).items()
        }

    def names(self) -> list[str]:
        """Names of the values of :meth:`parameters`."""
        shown = ((name, _SHOWN.get(kind, {})) for name, kind in self.distributions.items())
        return [f"{name}-distribution-{what}" for name, own in shown for what in own]


class Acting:
    """Chooses an agent's actions.

    Args:
        actions: specs of the actions.
        chooser: draws the actions.
        seed: seed of the generators.
        learning: holds the model; None for agents without one.
        parameters: parameters by name, for an agent with a model: ``<a>-exploration``, ``<a>-temperature``,
            ``variable-noise``.

    Attributes:
        last: the last act, for queries.
        rng: generator of training acts.
        independent_rng: generator of independent acts.
        parameter_rng: generator of random parameters.
    """

    def __init__(
        self,
        actions: Values,
        chooser: Chooser,
        seed: int,
        learning: Learner | None = None,
        parameters: Mapping[str, Parameter] | None = None,
    ) -> None:
        self._actions, self.chooser, self._learning = actions, chooser, learning
        self.parameters = dict(parameters or {})
        self.rng, self.independent_rng, self.parameter_rng = (
            np.random.default_rng([seed, word]) for word in (_MAIN, _INDEPENDENT, _PARAMETERS)
        )
        self._noise = self.parameters.get(NOISE)
        if self._noise is not None and self._noise.constant == 0:
            self._noise = None
        self.last: Acted | None = None
        self.setting_names: list[str] = []
        """Parameters that a call may override and query."""
        self._fixed: Levels | None = chooser.greedy
        if learning is not None:
            several = [] if actions.single else [f"{name}-exploration" for name in actions.flat]
            self.setting_names = ["exploration", "temperature", NOISE, *several]
            is_fixed = all(one.constant is not None for name, one in self.parameters.items() if name != NOISE)
            self._fixed = self._levels_at(None) if is_fixed else None
            self._trained = {name: spec.trainable for name, spec in learning.program.predict_variables().items()}

    def settings(self, where: str, given: Mapping[str, Any]) -> dict[str, float]:
        """Values of parameters for one call, by name; ``exploration`` and ``temperature`` apply to all actions."""
        given = {NOISE if name == "variable_noise" else name: value for name, value in given.items()}
        refuse_unknown(where, given, self.setting_names)
        of_all = {"exploration", "temperature"} & given.keys()
        found = {}
        for name in sorted(given, key=lambda name: name not in of_all):  # a value for a single action takes precedence
            for own, parameter in self.parameters.items():
                if own == name or (name in of_all and own.endswith(f"-{name}")):
                    found[own] = number(f"{where}: {name}", given[name], **parameter.bounds)
        return found

    def __call__(
        self,
        features: Mapping[str, Array],
        internals: Any,
        counts: Counts,
        settings: Mapping[str, float],
        independent: bool = False,
        deterministic: bool = False,
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """Actions [K, ...] by flat name, and the next internals.

        Independent acts change only their own generator, and explore with the final values of the schedules.
        """
        rng = self.independent_rng if independent else self.rng
        levels, noise = self._fixed, settings.get(NOISE, 0.0)
        if deterministic:
            levels = self.chooser.greedy
        elif levels is None:
            levels = self._levels_at(None if independent else counts)
        if settings:
            levels = Levels(
                {name: settings.get(f"{name}-temperature", level) for name, level in levels.temperature.items()},
                {name: settings.get(f"{name}-exploration", level) for name, level in levels.exploration.items()},
            )
        if not independent and self._noise is not None and NOISE not in settings:
            noise = self._noise.value(counts, self.parameter_rng)
        predictions, following = self._predict(features, internals, noise, rng)
        self.last = Acted(predictions, features, levels, noise)
        return self.chooser(self.last, rng), following

    def _levels_at(self, counts: Counts | None) -> Levels:
        """Levels of the schedules; without counts, their final values."""

        def now(kind: str) -> dict[str, float]:
            found = {name: self.parameters[f"{name}-{kind}"] for name in self._actions.flat}
            if counts is None:
                return {name: one.final() for name, one in found.items()}
            return {name: one.value(counts, self.parameter_rng) for name, one in found.items()}

        return Levels(now("temperature"), now("exploration"))

    def _predict(
        self, features: Mapping[str, Array], internals: Any, noise: float, rng: np.random.Generator
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        if self._learning is None:
            return {}, None
        executor = self._learning.stepper.executor
        inputs = {"observation": features, "state": internals} if internals else features
        if noise == 0:
            return executor.act(inputs)
        own = executor.get_predict_weights()
        noisy = {
            name: weight + np.float32(noise) * rng.standard_normal(weight.shape, np.float32)
            if self._trained[name]  # other variables, such as a variance, must not get noise
            else weight
            for name, weight in own.items()
        }
        executor.set_weights(noisy)
        try:
            return executor.act(inputs)
        finally:
            executor.set_weights(own)


# -- draws ------------------------------------------------------------------------------------------------------------


def _categorical(spec: ValueSpec, acted: Acted, rng: np.random.Generator) -> Array:
    """int32 [B, ...] from logits [B, ..., K]."""
    temperature, exploration = acted.levels.temperature[spec.name], acted.levels.exploration[spec.name]
    logits, mask = acted.predictions[f"logits/{spec.name}"], acted.features[f"{spec.name}{MASK}"]
    shape, choices = logits.shape[:-1], logits.shape[-1]
    legal = 0 not in mask.tobytes()
    if temperature > 0:
        rows = logits.reshape(-1, choices).astype(np.float64)
        if not legal:
            rows[~mask.reshape(-1, choices)] = -np.inf
        chosen = drawn_index(rows / temperature if temperature != 1 else rows, rng)[0].reshape(shape)
    else:
        chosen = (logits if legal else np.where(mask, logits, _LOWEST)).argmax(-1)
    if exploration > 0:
        explores = rng.random(shape) < exploration
        if explores.any():
            chosen = np.where(explores, _uniform(mask, rng), chosen)
    return chosen.astype(np.int32)


def _uniform(mask: Array, rng: np.random.Generator) -> Array:
    """Uniformly random legal values, int32 [B, ...], from a mask [B, ..., K]."""
    return random_legal(mask.reshape(-1, mask.shape[-1]), 0, rng).reshape(mask.shape[:-1])


def _bernoulli(spec: ValueSpec, acted: Acted, rng: np.random.Generator) -> Array:
    """Bools [B, ...] from log-odds."""
    temperature, exploration = acted.levels.temperature[spec.name], acted.levels.exploration[spec.name]
    logit = acted.predictions[f"logit/{spec.name}"]
    bits = rng.random(logit.shape) < _probability(logit / temperature) if temperature > 0 else logit > 0
    if exploration > 0:
        explores = rng.random(logit.shape) < exploration
        bits = np.where(explores, rng.random(logit.shape) < 0.5, bits)
    return np.asarray(bits, np.bool_)


def _float(spec: ValueSpec, acted: Acted, rng: np.random.Generator) -> Array:
    """float32 [B, ...] in the action's bounds; temperature interpolates from a beta's mean (0) to a sample (1)."""
    temperature, exploration = acted.levels.temperature[spec.name], acted.levels.exploration[spec.name]
    if f"alpha/{spec.name}" in acted.predictions:
        alpha, beta = acted.predictions[f"alpha/{spec.name}"], acted.predictions[f"beta/{spec.name}"]
        unit = alpha / (alpha + beta)
        if temperature > 0:
            unit = unit + temperature * (rng.beta(alpha, beta) - unit)
        low, high = _interval(spec)
        action: Array = np.asarray(low + (high - low) * unit, np.float32)
    else:
        action = acted.predictions[f"mean/{spec.name}"].astype(np.float32)
        if temperature > 0:
            noise = rng.standard_normal(action.shape, np.float32)
            action = action + np.float32(temperature) * acted.predictions[f"stddev/{spec.name}"] * noise
    if exploration > 0:
        action = action + np.float32(exploration) * rng.standard_normal(action.shape, np.float32)
    return action if spec.min_value is None else np.clip(action, *map(np.float32, _interval(spec)))


def _random(spec: ValueSpec, acted: Acted, rng: np.random.Generator) -> Array:
    """Uniformly random actions [B, *shape]: over legal values, False and True, the bounds, or 0 .. 1."""
    if spec.type == "int":
        return _uniform(acted.features[f"{spec.name}{MASK}"], rng)
    shape = (len(next(iter(acted.features.values()))), *spec.shape)
    if spec.type == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.uniform(*_interval(spec), shape), np.float32)


def _constant(given: Array | None, spec: ValueSpec, acted: Acted, rng: np.random.Generator) -> Array:
    """Constant actions [B, *shape]: as given, else the first legal one, False, 0, or the middle of the bounds."""
    shape = (len(next(iter(acted.features.values()))), *spec.shape)
    if spec.type == "int":
        mask = acted.features[f"{spec.name}{MASK}"]  # [B, *shape, K]
        if given is None:
            return np.asarray(mask.argmax(-1), np.int32)
        if not np.take_along_axis(mask, np.broadcast_to(given, shape)[..., None], -1).all():
            problem = f"Agent.act: the mask of {spec.name!r} forbids its constant value {given.tolist()}"
            raise TensorforceError(problem, "action_values", given)
    middle = sum(_interval(spec)) / 2 if spec.bounded else 0.0
    return np.array(np.broadcast_to(np.array(middle, spec.dtype) if given is None else given, shape))


_DRAWS: Final[Mapping[str, Callable[[ValueSpec, Acted, np.random.Generator], Array]]] = {
    "categorical": _categorical,
    "bernoulli": _bernoulli,
    "gaussian": _float,
    "beta": _float,
    "random": _random,
}
"""Functions that draw an action [B, *shape], by distribution."""


def _interval(spec: ValueSpec) -> tuple[float, float]:
    """The bounds of a float, or 0 and 1."""
    return (0.0, 1.0) if spec.min_value is None or spec.max_value is None else (spec.min_value, spec.max_value)


def _probability(logit: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-logit.astype(np.float64))))


def _probabilities(name: str, acted: Acted) -> Array:
    legal = np.where(acted.features[f"{name}{MASK}"], acted.predictions[f"logits/{name}"].astype(np.float64), -np.inf)
    weights = np.exp((legal - legal.max(-1, keepdims=True)) / (acted.levels.temperature[name] or 1.0))
    return np.asarray(weights / weights.sum(-1, keepdims=True), np.float32)


def _prediction_reader(what: str) -> Callable[[str, Acted], Array]:
    return lambda name, acted: acted.predictions[f"{what}/{name}"]


_SHOWN: Final[Mapping[str, Mapping[str, Callable[[str, Acted], Array]]]] = {
    "categorical": {"probabilities": _probabilities, "values": _prediction_reader("logits")},
    "bernoulli": {
        "probability": lambda name, acted: _probability(acted.predictions[f"logit/{name}"]).astype(np.float32)
    },
    "gaussian": {what: _prediction_reader(what) for what in ("mean", "stddev")},
    "beta": {what: _prediction_reader(what) for what in ("alpha", "beta")},
}
"""Functions from an action's name and an act to query values, by distribution and parameter."""
