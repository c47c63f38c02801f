"""Actions drawn from what a model predicts, on the host: by sampling, greedily, exploring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ....core.protocols import Array
from ...common.draws import drawn_from, random_choice
from ...common.value_specs import ValueSpec
from ..spaces.specs import MASK, Values

_LOWEST = float(np.finfo(np.float32).min)


class Levels(NamedTuple):
    """How an action is chosen."""

    temperature: Mapping[str, float]
    """By action: 0 is greedy, 1 draws from the distribution."""
    exploration: Mapping[str, float]
    """By action: the probability of a uniform action, or the standard deviation of noise on a float."""


class Chooser:
    """Draws actions from predictions.

    Args:
        actions: their specs.
        distributions: by action: ``categorical``, ``bernoulli``, ``gaussian`` or ``beta``.
    """

    def __init__(self, actions: Values, distributions: Mapping[str, str]) -> None:
        self.distributions = dict(distributions)
        """By action, as they were given."""
        self._actions = [(name, spec, distributions[name]) for name, spec in actions.flat.items()]

    def __call__(
        self,
        predictions: Mapping[str, Array],
        features: Mapping[str, Array],
        levels: Levels,
        rng: np.random.Generator,
    ) -> dict[str, Array]:
        """Actions by flat name, [B, *shape] each.

        Args:
            predictions: of B rows.
            features: what they were predicted from, masks among them.
            levels: how to choose.
            rng: what to draw from; nothing is drawn where both levels are 0.
        """
        return {
            name: _drawn(spec, kind, predictions, features, levels.temperature[name], levels.exploration[name], rng)
            for name, spec, kind in self._actions
        }

    def parameters(
        self, predictions: Mapping[str, Array], features: Mapping[str, Array], temperature: Mapping[str, float]
    ) -> dict[str, Array]:
        """What queries find, by name, [B, ...]: ``<a>-distribution-probabilities`` and so on."""
        found: dict[str, Array] = {}
        for name, spec, kind in self._actions:
            for what, array in _described(spec, kind, predictions, features, temperature[name]).items():
                found[f"{name}-distribution-{what}"] = array
        return found

    def names(self) -> list[str]:
        """Of what :meth:`parameters` returns."""
        return [f"{name}-distribution-{what}" for name, _, kind in self._actions for what in _NAMES[kind]]


_NAMES = {
    "categorical": ("probabilities", "values"),
    "bernoulli": ("probability",),
    "gaussian": ("mean", "stddev"),
    "beta": ("alpha", "beta"),
    "value": ("mean",),
}


def _drawn(
    spec: ValueSpec,
    kind: str,
    predictions: Mapping[str, Array],
    features: Mapping[str, Array],
    temperature: float,
    exploration: float,
    rng: np.random.Generator,
) -> Array:
    if kind == "categorical":
        return _choice(
            predictions[f"logits/{spec.name}"], features[f"{spec.name}{MASK}"], temperature, exploration, rng
        )
    if kind == "bernoulli":
        return _bits(predictions[f"logit/{spec.name}"], temperature, exploration, rng)
    if kind == "beta":
        action = _beta(spec, predictions[f"alpha/{spec.name}"], predictions[f"beta/{spec.name}"], temperature, rng)
    else:
        action = predictions[f"mean/{spec.name}"].astype(np.float32)
        if kind == "gaussian" and temperature > 0:
            noise = rng.standard_normal(action.shape, np.float32)
            action = action + np.float32(temperature) * predictions[f"stddev/{spec.name}"] * noise
    if exploration > 0:
        action = action + np.float32(exploration) * rng.standard_normal(action.shape, np.float32)
    return within(spec, action)


def within(spec: ValueSpec, action: Array) -> Array:
    """A float action, clipped to its bounds."""
    if spec.min_value is None:
        return action
    return np.clip(action, np.float32(spec.min_value), np.float32(spec.max_value))


def _choice(logits: Array, mask: Array, temperature: float, exploration: float, rng: np.random.Generator) -> Array:
    """int32 [B, ...] from logits [B, ..., K]."""
    legal = mask.all()
    if temperature > 0:
        values = logits.astype(np.float64)
        if not legal:
            values[~mask] = -np.inf
        chosen = drawn_from(values / temperature if temperature != 1 else values, rng)
    else:
        chosen = (logits if legal else np.where(mask, logits, _LOWEST)).argmax(-1)
    if exploration > 0:
        explores = rng.random(chosen.shape) < exploration
        if explores.any():
            chosen = np.where(explores, random_choice(mask, rng), chosen)
    return chosen.astype(np.int32)


def _bits(logit: Array, temperature: float, exploration: float, rng: np.random.Generator) -> Array:
    """Bits, bool [B, ...], from the logarithms of odds."""
    bits = rng.random(logit.shape) < _probability(logit / temperature) if temperature > 0 else logit > 0
    if exploration > 0:
        explores = rng.random(logit.shape) < exploration
        bits = np.where(explores, rng.random(logit.shape) < 0.5, bits)
    return np.asarray(bits, np.bool_)


def _beta(spec: ValueSpec, alpha: Array, beta: Array, temperature: float, rng: np.random.Generator) -> Array:
    """float32 [B, ...] in the action's bounds; the temperature lies between the mean (0) and a draw (1)."""
    unit = alpha / (alpha + beta)
    if temperature > 0:
        unit = unit + temperature * (rng.beta(alpha, beta) - unit)
    low, high = spec.min_value or 0.0, 1.0 if spec.max_value is None else spec.max_value
    return np.asarray(low + (high - low) * unit, np.float32)


def _probability(logit: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-logit.astype(np.float64))))


def _described(
    spec: ValueSpec, kind: str, predictions: Mapping[str, Array], features: Mapping[str, Array], temperature: float
) -> dict[str, Array]:
    name = spec.name
    if kind == "categorical":
        values = predictions[f"logits/{name}"]
        legal = np.where(features[f"{name}{MASK}"], values.astype(np.float64), -np.inf)
        weights = np.exp((legal - legal.max(-1, keepdims=True)) / (temperature or 1.0))
        return {"probabilities": (weights / weights.sum(-1, keepdims=True)).astype(np.float32), "values": values}
    if kind == "bernoulli":
        return {"probability": _probability(predictions[f"logit/{name}"]).astype(np.float32)}
    return {what: predictions[f"{what}/{name}"] for what in _NAMES[kind]}
