"""How agents act: by a model, at random, or always alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from ....core.protocols import Array
from ...common.draws import random_choice
from ...common.value_specs import ValueSpec
from ..processing.parameters import Counts, Parameter
from ..spaces.errors import TensorforceError, known, number, refuse
from ..spaces.specs import MASK, Values
from .action_draws import Chooser, Levels

if TYPE_CHECKING:
    from .learner import Learner

_MAIN, _INDEPENDENT, _PARAMETERS = 11, 12, 13
"""Words that tell an agent's generators from one another, beside its seed."""
_NOISE: Final = "variable-noise"


def generator(seed: int, word: int) -> np.random.Generator:
    """One of an agent's generators."""
    return np.random.default_rng([seed, word])


class Acted(NamedTuple):
    """The last act, for queries."""

    predictions: Mapping[str, Array]
    features: Mapping[str, Array]
    levels: Levels
    noise: float
    """On the weights."""


class Actor(Protocol):
    """What chooses actions."""

    last: Acted | None
    rng: np.random.Generator
    independent_rng: np.random.Generator

    def initial_internals(self) -> dict[str, Array]:
        """[1, ...] by name; empty without internal layers."""

    def settings(self, where: str, given: Mapping[str, Any]) -> dict[str, float]:
        """Parameters of one call, checked, by name."""

    def setting_names(self) -> list[str]:
        """Of the parameters that a call can be given, and that can be queried."""

    def query_names(self) -> list[str]:
        """Of what else can be queried after an act."""

    def act(
        self, features: Mapping[str, Array], internals: Any, counts: Counts, settings: Mapping[str, float]
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """Actions [K, ...] by flat name that an observe follows, and the next internals."""

    def act_independently(
        self,
        features: Mapping[str, Array],
        internals: Any,
        counts: Counts,
        settings: Mapping[str, float],
        deterministic: bool,
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """Actions [K, ...] that change nothing but a generator of their own."""

    def described(self) -> dict[str, Array]:
        """Parameters of the last act's distributions, by the names of :meth:`query_names`."""


class ModelActing:
    """Acts by a model.

    Args:
        learning: has the model.
        actions: what is chosen.
        distributions: by action, as :class:`.action_draws.Chooser` takes them.
        temperature: by action.
        exploration: by action.
        variable_noise: standard deviation of noise on the weights.
        seed: of the generators.
    """

    def __init__(
        self,
        learning: Learner,
        actions: Values,
        distributions: Mapping[str, str],
        temperature: Mapping[str, Parameter],
        exploration: Mapping[str, Parameter],
        variable_noise: Parameter,
        seed: int,
    ) -> None:
        self._learning = learning
        self._actions = actions
        self.chooser = Chooser(actions, distributions)
        self._temperature, self._exploration, self._noise = temperature, exploration, variable_noise
        self.rng, self.independent_rng = generator(seed, _MAIN), generator(seed, _INDEPENDENT)
        self.parameter_rng = generator(seed, _PARAMETERS)
        self.last: Acted | None = None
        constant = [p.constant for p in (*temperature.values(), *exploration.values())]
        self._levels = None if None in constant else self._now(Counts(0, 0, 0))
        self._noisy = variable_noise.constant != 0
        self._trained = {name: spec.trainable for name, spec in learning.program.predict_variables().items()}

    def parameters(self) -> dict[str, Parameter]:
        """All of them, by a name for a saved state."""
        found = {f"temperature/{name}": one for name, one in self._temperature.items()}
        found |= {f"exploration/{name}": one for name, one in self._exploration.items()}
        return {**found, _NOISE: self._noise}

    def initial_internals(self) -> dict[str, Array]:
        """[1, ...] by name."""
        return self._learning.initial_internals() or {}

    def setting_names(self) -> list[str]:
        """``exploration`` and so on; with several actions also one for each."""
        names = ["exploration", "temperature", _NOISE]
        return names if self._actions.single else [*names, *(f"{name}-exploration" for name in self._actions.flat)]

    def query_names(self) -> list[str]:
        """Of the distributions' parameters."""
        return self.chooser.names()

    def settings(self, where: str, given: Mapping[str, Any]) -> dict[str, float]:
        """Checked: each is a number of at least 0; exploration of ints and bools at most 1."""
        given = {name.replace("_", "-") if name == "variable_noise" else name: x for name, x in given.items()}
        known(where, given, self.setting_names())
        found = {}
        for name, value in given.items():
            found[name] = number(f"{where}: {name}", value, at_least=0)
            limited = [
                spec
                for spec in self._actions.flat.values()
                if spec.type != "float" and name in ("exploration", f"{spec.name}-exploration")
            ]
            if limited and found[name] > 1:
                refuse(
                    f"{where}: {name}", f"must be at most 1, the probability of a uniform action; got {value}", value
                )
        return found

    def act(
        self, features: Mapping[str, Array], internals: Any, counts: Counts, settings: Mapping[str, float]
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """As :meth:`Actor.act`."""
        levels = self._levels or self._now(counts)
        if settings:
            levels = self._overridden(levels, settings)
        noise = settings.get(_NOISE, self._noise.value(counts, self.parameter_rng) if self._noisy else 0.0)
        predictions, following = self._predict(features, internals, noise, self.rng)
        self.last = Acted(predictions, features, levels, noise)
        return self.chooser(predictions, features, levels, self.rng), following

    def act_independently(
        self,
        features: Mapping[str, Array],
        internals: Any,
        counts: Counts,
        settings: Mapping[str, float],
        deterministic: bool,
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """As :meth:`Actor.act_independently`; explores as at the end of the schedules."""
        temperature = {name: 0.0 if deterministic else one.final() for name, one in self._temperature.items()}
        exploration = {name: 0.0 if deterministic else one.final() for name, one in self._exploration.items()}
        levels = self._overridden(Levels(temperature, exploration), settings)
        noise = settings.get(_NOISE, 0.0)
        predictions, following = self._predict(features, internals, noise, self.independent_rng)
        self.last = Acted(predictions, features, levels, noise)
        return self.chooser(predictions, features, levels, self.independent_rng), following

    def described(self) -> dict[str, Array]:
        """As :meth:`Actor.described`."""
        last = self.last
        return {} if last is None else self.chooser.parameters(last.predictions, last.features, last.levels.temperature)

    def _now(self, counts: Counts) -> Levels:
        rng = self.parameter_rng
        temperature = {name: one.value(counts, rng) for name, one in self._temperature.items()}
        return Levels(temperature, {name: one.value(counts, rng) for name, one in self._exploration.items()})

    def _overridden(self, levels: Levels, settings: Mapping[str, float]) -> Levels:
        temperature, exploration = dict(levels.temperature), dict(levels.exploration)
        for name in self._actions.flat:
            temperature[name] = settings.get("temperature", temperature[name])
            given = settings.get("exploration", exploration[name])
            exploration[name] = settings.get(f"{name}-exploration", given)
        return Levels(temperature, exploration)

    def _predict(
        self, features: Mapping[str, Array], internals: Any, noise: float, rng: np.random.Generator
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        learning = self._learning
        if noise == 0:
            return learning.predict(features, internals)
        executor = learning.stepper.executor
        own = executor.get_predict_weights()
        noisy = {
            name: weight + np.float32(noise) * rng.standard_normal(weight.shape, np.float32)
            if self._trained[name]  # a variance, say, would be nonsense with noise
            else weight
            for name, weight in own.items()
        }
        executor.set_weights(noisy)
        try:
            return learning.predict(features, internals)
        finally:
            executor.set_weights(own)


class SimpleActing:
    """Acts at random, or always alike; without a model.

    Args:
        actions: what is chosen.
        constants: by action, as arrays; None to draw at random.
        seed: of the generators.
    """

    def __init__(self, actions: Values, constants: Mapping[str, Array] | None, seed: int) -> None:
        self._actions = actions
        self._constants = constants
        self.rng, self.independent_rng = generator(seed, _MAIN), generator(seed, _INDEPENDENT)
        self.last: Acted | None = None

    def initial_internals(self) -> dict[str, Array]:
        """None."""
        return {}

    def setting_names(self) -> list[str]:
        """None."""
        return []

    def query_names(self) -> list[str]:
        """None."""
        return []

    def settings(self, where: str, given: Mapping[str, Any]) -> dict[str, float]:
        """There are none."""
        known(where, given, [])
        return {}

    def act(
        self, features: Mapping[str, Array], internals: Any, counts: Counts, settings: Mapping[str, float]
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """As :meth:`Actor.act`."""
        return self._actions_for(features, self.rng), None

    def act_independently(
        self,
        features: Mapping[str, Array],
        internals: Any,
        counts: Counts,
        settings: Mapping[str, float],
        deterministic: bool,
    ) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """As :meth:`Actor.act_independently`."""
        return self._actions_for(features, self.independent_rng), None

    def described(self) -> dict[str, Array]:
        """There are no distributions."""
        return {}

    def _actions_for(self, features: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Array]:
        size = len(next(iter(features.values())))
        if self._constants is None:
            return {name: _random(spec, features, size, rng) for name, spec in self._actions.flat.items()}
        return {
            name: _constant(spec, self._constants.get(name), features, size)
            for name, spec in self._actions.flat.items()
        }


def _random(spec: ValueSpec, features: Mapping[str, Array], size: int, rng: np.random.Generator) -> Array:
    """[size, *shape]: uniform over what is allowed, a coin, the bounds, or 0 .. 1."""
    shape = (size, *spec.shape)
    if spec.type == "int":
        return random_choice(features[f"{spec.name}{MASK}"], rng).astype(np.int32)
    if spec.type == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    low, high = (0.0, 1.0) if spec.min_value is None or spec.max_value is None else (spec.min_value, spec.max_value)
    return rng.uniform(low, high, shape).astype(np.float32)


def _constant(spec: ValueSpec, given: Array | None, features: Mapping[str, Array], size: int) -> Array:
    """[size, *shape]: what was given; else the first that is allowed, False, 0, or the middle of the bounds."""
    if spec.type == "int":
        mask = features[f"{spec.name}{MASK}"]  # [size, *shape, K]
        if given is None:
            return np.asarray(mask.argmax(-1), np.int32)
        chosen = np.broadcast_to(given, (size, *spec.shape))
        if not np.take_along_axis(mask, chosen[..., None], -1).all():
            raise TensorforceError(
                f"Agent.act: the mask of {spec.name!r} forbids its constant value {given.tolist()}",
                "action_values",
                given,
            )
        return np.array(chosen)
    middle = 0.0 if spec.min_value is None or spec.max_value is None else (spec.min_value + spec.max_value) / 2
    value = np.array(middle if spec.type == "float" else False, spec.dtype) if given is None else given
    return np.array(np.broadcast_to(value, (size, *spec.shape)))
