"""Behaviour policy for composite actions: each part is drawn from its own distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import ArgumentError
from ..core.protocols import Array
from .policies import is_discrete, is_float_box, parts_of, unsuitable
from .sampling import Bernoulli, Categorical, Gaussian, MultiCategorical


class Composite:
    """Draws the parts of an action independently; log-probabilities add.

    :class:`Categorical` draws a Discrete part, :class:`MultiCategorical` a MultiDiscrete one, :class:`Gaussian` a Box,
    :class:`Bernoulli` a MultiBinary one. Each reads its predictions under its own name after a slash:
    ``predictions["logits/left/arm"]`` for the part ``left/arm``.

    Args:
        action_space: a Dict or a Tuple of such spaces, possibly nested. Nested keys are joined by ``/``; the items of a
            Tuple are called ``0``, ``1``, ...
    """

    def __init__(self, action_space: Any) -> None:
        if not hasattr(action_space, "spaces"):
            raise unsuitable("Composite", "a Dict or a Tuple as action space", action_space)
        self._parts = [(name, _policy(space)) for name, space in parts_of(action_space)]

    def __call__(
        self, predictions: Mapping[str, Any], timestep: int, rng: np.random.Generator
    ) -> tuple[dict[str, Array], Mapping[str, Array]]:
        """A dictionary of actions [N, ...], and ``log_prob`` float32 [N], the sum over the parts."""
        actions: dict[str, Array] = {}
        log_probs: list[Array] = []
        for name, draws in self._parts:
            actions[name], extras = draws(_predictions_of(draws, name, predictions), timestep, rng)
            log_probs.append(extras["log_prob"])
        return actions, {"log_prob": np.add.reduce(log_probs)}

    def log_prob_of(self, predictions: Mapping[str, Any], action: Mapping[str, Array]) -> Array:
        """Log-probability float32 [N] of given actions [N, ...] by part."""
        each = [
            draws.log_prob_of(_predictions_of(draws, name, predictions), action[name]) for name, draws in self._parts
        ]
        found: Array = np.add.reduce(each)
        return found


def _predictions_of(draws: Any, name: str, predictions: Mapping[str, Any]) -> dict[str, Array]:
    """Predictions for the policy of a part, under the names that it expects."""
    try:
        return {needed: predictions[f"{needed}/{name}"] for needed in draws.needs}
    except KeyError as error:
        message = f"Composite needs predictions[{error}]; the model predicts {', '.join(predictions)}"
        raise ArgumentError(message, f"predictions[{error}]") from None


def _policy(space: Any) -> Any:
    if is_discrete(space):
        return Categorical(space)
    if hasattr(space, "nvec"):
        return MultiCategorical(space)
    return Gaussian(space) if is_float_box(space) else Bernoulli(space)
