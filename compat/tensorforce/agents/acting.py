"""Choice of actions on the host: drawn from a model's predictions, uniformly random, or constant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ....core.protocols import Array
from ....explorations.policies import random_legal
from ....explorations.sampling import drawn_index
from ...common.value_specs import ValueSpec
from ..processing.parameters import Counts, Parameter
from ..spaces.errors import TensorforceError, number, refuse_unknown
from ..spaces.specs import MASK, Values

if TYPE_CHECKING:
    from .learner import Learner

_MAIN, _INDEPENDENT, _PARAMETERS = 11, 12, 13
"""Numbers that, beside the seed, tell an agent's generators apart."""
NOISE: Final = "variable-noise"
_LOWEST: Final = float(np.finfo(np.float32).min)


class Levels(NamedTuple):
    """Randomness of an act."""

    temperature: Mapping[str, float]
    """Temperature by action: 0 is greedy, 1 draws from the distribution."""
    exploration: Mapping[str, float]
    """Exploration by action: probability of a uniform action, or standard deviation of noise on a float."""


class Acted(NamedTuple):
    """Inputs of a draw of actions for B rows; the last one is kept for queries."""

    predictions: Mapping[str, Array]
    features: Mapping[str, Array]
    """Inputs of the predictions, masks among them."""
    levels: Levels
    noise: float = 0.0
    """Standard deviation of the noise on the weights."""


class Chooser:
    """Draws actions from predictions.

    Args:
        actions: their specs.
        distributions: by action: ``categorical``, ``bernoulli``, ``gaussian`` or ``beta``; or, of agents without a
            model, ``random`` (uniform over what is allowed) or ``constant``.
        constants: by action, of those that are ``constant``; others have the first legal value, False, 0, or the
            middle of their bounds.
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
        """Actions by flat name, [B, *shape] each; with a model, nothing is drawn where both levels are 0."""
        return {name: draw(spec, acted, rng) for name, spec, draw in self._actions}

    def parameters(self, acted: Acted | None) -> dict[str, Array]:
        """Query values of an act, by name, [B, ...]: ``<a>-distribution-probabilities`` and so on."""
        if acted is None:
            return {}
        return {
            f"{name}-distribution-{what}": shown(name, acted)
            for name, kind in self.distributions.items()
            for what, shown in _SHOWN.get(kind, {}).items()
        }

    def names(self) -> list[str]:
        """Names of :meth:`parameters` values."""
        shown = ((name, _SHOWN.get(kind, {})) for name, kind in self.distributions.items())
        return [f"{name}-distribution-{what}" for name, own in shown for what in own]


class Acting:
    """Chooses an agent's actions.

    Args:
        actions: what is chosen.
        chooser: draws the actions.
        seed: of the generators.
        learning: holds the model; None for agents without one.
        parameters: of an agent with a model, by name: ``<a>-exploration``, ``<a>-temperature``, ``variable-noise``.

    Attributes:
        last: the last act, for queries.
        rng: generator of training.
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
        """Values of parameters for one call, by their names; ``exploration`` and ``temperature`` are of all actions."""
        given = {NOISE if name == "variable_noise" else name: value for name, value in given.items()}
        refuse_unknown(where, given, self.setting_names)
        of_all = {"exploration", "temperature"} & given.keys()
        found = {}
        for name in sorted(given, key=lambda name: name not in of_all):  # what is given for one action wins
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

        Independent acts change nothing but a generator of their own, and explore as at the end of the schedules.
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
        """Levels of the schedules; without counts, those at their end."""

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
            if self._trained[name]  # a variance, say, would be nonsense with noise
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
    """A uniformly random legal value, int32 [B, ...], from a mask [B, ..., K]."""
    return random_legal(mask.reshape(-1, mask.shape[-1]), 0, rng).reshape(mask.shape[:-1])


def _bernoulli(spec: ValueSpec, acted: Acted, rng: np.random.Generator) -> Array:
    """Bits, bool [B, ...], from the logarithms of odds."""
    temperature, exploration = acted.levels.temperature[spec.name], acted.levels.exploration[spec.name]
    logit = acted.predictions[f"logit/{spec.name}"]
    bits = rng.random(logit.shape) < _probability(logit / temperature) if temperature > 0 else logit > 0
    if exploration > 0:
        explores = rng.random(logit.shape) < exploration
        bits = np.where(explores, rng.random(logit.shape) < 0.5, bits)
    return np.asarray(bits, np.bool_)


def _float(spec: ValueSpec, acted: Acted, rng: np.random.Generator) -> Array:
    """float32 [B, ...] in the action's bounds; the temperature of a beta lies between its mean (0) and a draw (1)."""
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
    """[B, *shape]: uniform over what is allowed, a coin, the bounds, or 0 .. 1."""
    if spec.type == "int":
        return _uniform(acted.features[f"{spec.name}{MASK}"], rng)
    shape = (len(next(iter(acted.features.values()))), *spec.shape)
    if spec.type == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.uniform(*_interval(spec), shape), np.float32)


def _constant(given: Array | None, spec: ValueSpec, acted: Acted, rng: np.random.Generator) -> Array:
    """[B, *shape]: what was given; else the first that is allowed, False, 0, or the middle of the bounds."""
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
"""Parameters of a distribution that queries find, from an action's name and an act."""
