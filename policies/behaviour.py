"""What acts in training: a program, its exploration and its recurrent state, for several lanes. Loads no TensorFlow."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.protocols import Array, ArrayTree, Exploration
from ..explorations import Greedy
from ..explorations.description import is_ours
from ..explorations.returned_actions import checked
from .actor import Actor
from .modes import PredictMode


class Behaviour:
    """The behaviour policy of N lanes, with what it carries from one timestep to the next.

    Args:
        predict: what acts.
        executor: runs it.
        lanes: N.
        rng: what acting draws from.
    """

    def __init__(self, predict: PredictMode, executor: Actor, lanes: int, rng: np.random.Generator) -> None:
        self.executor = executor
        self.lanes = lanes
        self.exploration: Exploration = Greedy() if predict.exploration is None else predict.exploration
        self.recurrent = zero_state(predict.state, lanes)
        """The model's recurrent state [N, ...] where the episodes stand; None if it has none."""
        self._record = predict.record
        self._noise = predict.noise
        self._rng = rng
        self._trusted = is_ours(self.exploration)
        self._begin_exploration = getattr(self.exploration, "reset", None)

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of what is stored with an action, beside a recurrent state."""
        return tuple(self._record)

    def act(
        self, observation: ArrayTree, timestep: int, lanes: Array | None = None
    ) -> tuple[ArrayTree, dict[str, Any], dict[str, Any]]:
        """The behaviour policy's actions, what is to be stored with them, and the predictions.

        Args:
            observation: [N, ...], as ``environments.spaces`` lays it out. Not changed, and not kept.
            timestep: ``global_timestep``, for schedules.
            lanes: those that an exploration with a state for each acts for; None for all.

        Returns:
            Actions [N, ...] (a flat dictionary of arrays for a Dict or a Tuple space), what the spec asks to record
            [N, ...], recurrent state included, and all predictions [N, ...].

        Raises:
            ArgumentError: an exploration that is not axonrl's own returns something else.
        """
        recurrent, requests = self.recurrent, self._noise
        draws = [request.draw(self._rng) for request in requests] if requests else ()
        if recurrent is None:
            predictions, _ = self.executor.act(observation, draws)
        else:
            features = {"observation": observation, "state": recurrent}
            predictions, self.recurrent = self.executor.act(features, draws)
        if lanes is None:
            returned = self.exploration(predictions, timestep, self._rng)
        else:
            exploration: Any = self.exploration
            returned = exploration.act_for(predictions, timestep, self._rng, lanes)
        action, extras = returned if self._trusted else checked(self.exploration, returned, predictions, self._record)
        recorded: dict[str, Any] = {}
        for name in self._record:
            recorded[name] = extras[name] if name in extras else predictions[name]
        if recurrent is not None:
            recorded["state"] = recurrent
        return action, recorded, predictions

    def act_for(
        self, observation: ArrayTree, timestep: int, lanes: Array
    ) -> tuple[ArrayTree, dict[str, Any], dict[str, Any]]:
        """As :meth:`act`, for some of the lanes: rows k belong to ``lanes[k]``.

        Raises:
            ValueError: the exploration has a state for each lane, and no ``act_for``; as for :meth:`act`.
        """
        if len(lanes) == self.lanes and (lanes == np.arange(self.lanes)).all():
            return self.act(observation, timestep)
        if self._begin_exploration is None:
            exploring = None
        elif hasattr(self.exploration, "act_for"):
            exploring = lanes
        else:
            raise ValueError(
                f"{type(self.exploration).__name__} has a state for each lane and no act_for: act for all"
                f" {self.lanes} lanes in one call and in their order, or use lanes=1"
            )
        every = self.recurrent
        if every is None:
            return self.act(observation, timestep, exploring)
        self.recurrent = {name: values[lanes] for name, values in every.items()}
        try:
            acted = self.act(observation, timestep, exploring)
        finally:
            following, self.recurrent = self.recurrent, every
        self.recurrent = {name: _with_rows(values, lanes, following[name]) for name, values in every.items()}
        return acted

    def begin(self, mask: Array) -> None:
        """Episodes begin where ``mask`` [N]: recurrent state is zero there, and the exploration is told."""
        if self.recurrent is not None:
            self.recurrent = {name: zero_rows(values, mask) for name, values in self.recurrent.items()}
        if self._begin_exploration is not None:
            self._begin_exploration(mask)

    def drawn(self) -> tuple[Any, ...]:
        """What acting changes; :meth:`put_back` undoes it."""
        exploration = self.exploration
        carried = copy.deepcopy(exploration.state_dict()) if hasattr(exploration, "state_dict") else None
        return self.recurrent, carried, self._rng.bit_generator.state

    def put_back(self, drawn: tuple[Any, ...]) -> None:
        """Be as when :meth:`drawn` was called."""
        self.recurrent, carried, self._rng.bit_generator.state = drawn
        if carried is not None and hasattr(self.exploration, "load_state_dict"):
            self.exploration.load_state_dict(carried)

    def state_dict(self) -> dict[str, Any]:
        """What acting follows from, beside weights and generator."""
        exploration = self.exploration
        carried = exploration.state_dict() if hasattr(exploration, "state_dict") else {}
        return {"exploration": carried, "recurrent": self.recurrent or {}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        if hasattr(self.exploration, "load_state_dict"):
            self.exploration.load_state_dict(state["exploration"])
        self.recurrent = dict(state["recurrent"]) or None


def zero_state(declared: Mapping[str, Any] | None, size: int) -> dict[str, Array] | None:
    """Zeros [size, ...] of the declared specs; None where a model has no recurrent state."""
    if declared is None:
        return None
    return {name: np.zeros((size, *spec.shape), spec.dtype) for name, spec in declared.items()}


def zero_rows(values: Array, mask: Array) -> Array:
    """A copy of ``values`` [N, ...] with zeros where ``mask`` [N]."""
    return np.where(mask.reshape(-1, *[1] * (values.ndim - 1)), np.zeros((), values.dtype), values)


def _with_rows(values: Array, rows: Array, new: Array) -> Array:
    """A copy of ``values`` [N, ...] with ``new`` [K, ...] at ``rows`` [K]."""
    values = values.copy()
    values[rows] = new
    return values
