"""The behaviour policy in training: program, exploration and recurrent state of N lanes. Loads no TensorFlow."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.protocols import Array, ArrayTree, Exploration
from ..explorations import Greedy
from ..explorations.description import is_ours
from ..explorations.returned_actions import check_returned
from .actor import Actor
from .modes import PredictMode


class Behaviour:
    """The behaviour policy of N lanes, and its state between timesteps.

    Args:
        predict: the acting mode.
        executor: runs it.
        lanes: N.
        rng: generator for acting.
    """

    def __init__(self, predict: PredictMode, executor: Actor, lanes: int, rng: np.random.Generator) -> None:
        self.executor = executor
        self.lanes = lanes
        self.exploration: Exploration = Greedy() if predict.exploration is None else predict.exploration
        self.recurrent = zero_state(predict.state, lanes)
        """The model's current recurrent state [N, ...]; None if it has none."""
        self._record = predict.record
        self._noise = predict.noise
        self._rng = rng
        self._trusted = is_ours(self.exploration)
        self._begin_exploration = getattr(self.exploration, "reset", None)

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of the values stored with an action, besides a recurrent state."""
        return tuple(self._record)

    def act(
        self, observation: ArrayTree, timestep: int, lanes: Array | None = None
    ) -> tuple[ArrayTree, dict[str, Any], dict[str, Any]]:
        """Choose actions; returns them, the values to store with them, and the predictions.

        Args:
            observation: [N, ...], in the layout of ``environments.spaces``. Not changed, and not kept.
            timestep: ``global_timestep``, for schedules.
            lanes: act only in these lanes: row k belongs to ``lanes[k]``; None for all.

        Returns:
            Actions [N, ...] (a flat dictionary of arrays for a Dict or Tuple space), the values that the spec records
            [N, ...], recurrent state included, and all predictions [N, ...].

        Raises:
            ArgumentError: a user's exploration returns an invalid value.
            ValueError: some lanes act, and the exploration has a state per lane, but no ``act_for``.
        """
        if lanes is not None and len(lanes) == self.lanes and (lanes == np.arange(self.lanes)).all():
            lanes = None
        explore = self.exploration if lanes is None or self._begin_exploration is None else self._for_lanes(lanes)
        recurrent, requests = self.recurrent, self._noise
        draws = [request.draw(self._rng) for request in requests] if requests else ()
        if recurrent is None:
            predictions, following = self.executor.act(observation, draws)
        else:
            if lanes is not None:
                recurrent = {name: values[lanes] for name, values in recurrent.items()}
            features = {"observation": observation, "state": recurrent}
            predictions, following = self.executor.act(features, draws)
        returned = explore(predictions, timestep, self._rng)
        action, extras = (
            returned if self._trusted else check_returned(self.exploration, returned, predictions, self._record)
        )
        recorded: dict[str, Any] = {}
        for name in self._record:
            recorded[name] = extras[name] if name in extras else predictions[name]
        if recurrent is not None and following is not None:
            recorded["state"] = recurrent
            self._take_over(following, lanes)
        return action, recorded, predictions

    def _for_lanes(self, lanes: Array) -> Callable[..., Any]:
        """The exploration of some lanes."""
        exploration: Any = self.exploration
        if not hasattr(exploration, "act_for"):
            raise ValueError(
                f"{type(exploration).__name__} has a state per lane but no act_for: act for all"
                f" {self.lanes} lanes in one call and in order, or use lanes=1"
            )
        act_for = exploration.act_for
        return lambda predictions, timestep, rng: act_for(predictions, timestep, rng, lanes)

    def _take_over(self, following: dict[str, Array], lanes: Array | None) -> None:
        """Set the recurrent state of these lanes."""
        if lanes is not None and self.recurrent is not None:
            following = {name: _with_rows(values, lanes, following[name]) for name, values in self.recurrent.items()}
        self.recurrent = following

    def begin(self, mask: Array) -> None:
        """Begin episodes where ``mask`` [N]: reset the recurrent state and the exploration there."""
        if self.recurrent is not None:
            self.recurrent = {name: zero_rows(values, mask) for name, values in self.recurrent.items()}
        if self._begin_exploration is not None:
            self._begin_exploration(mask)

    def capture(self) -> tuple[Any, ...]:
        """Capture what acting changes; :meth:`put_back` restores it."""
        exploration = self.exploration
        carried = copy.deepcopy(exploration.state_dict()) if hasattr(exploration, "state_dict") else None
        return self.recurrent, carried, self._rng.bit_generator.state

    def put_back(self, drawn: tuple[Any, ...]) -> None:
        """Restore the state returned by :meth:`capture`."""
        self.recurrent, carried, self._rng.bit_generator.state = drawn
        if carried is not None and hasattr(self.exploration, "load_state_dict"):
            self.exploration.load_state_dict(carried)

    def state_dict(self) -> dict[str, Any]:
        """Everything that acting depends on, besides weights and generator."""
        exploration = self.exploration
        carried = exploration.state_dict() if hasattr(exploration, "state_dict") else {}
        return {"exploration": carried, "recurrent": self.recurrent or {}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        if hasattr(self.exploration, "load_state_dict"):
            self.exploration.load_state_dict(state["exploration"])
        self.recurrent = dict(state["recurrent"]) or None


def zero_state(declared: Mapping[str, Any] | None, size: int) -> dict[str, Array] | None:
    """Zeros [size, ...] of the declared specs; None for a model without recurrent state."""
    if declared is None:
        return None
    return {name: np.zeros((size, *spec.shape), spec.dtype) for name, spec in declared.items()}


def zero_rows(values: Array, mask: Array) -> Array:
    """Copy ``values`` [N, ...], with zeros where ``mask`` [N]."""
    return np.where(mask.reshape(-1, *[1] * (values.ndim - 1)), np.zeros((), values.dtype), values)


def _with_rows(values: Array, rows: Array, new: Array) -> Array:
    """Copy ``values`` [N, ...], with ``new`` [K, ...] at ``rows`` [K]."""
    values = values.copy()
    values[rows] = new
    return values
