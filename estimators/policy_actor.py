"""Acting with an agent's policy, one call at a time, in the caller's loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.checks import counted
from ..core.errors import ArgumentError
from ..core.protocols import Array
from ..core.trees import leaves
from ..environments import spaces
from ..policies import description
from ..policies.boundary import actions_out
from ..run_dir.snapshot import PolicySnapshot
from .evaluator import observations_in
from .export import normalization_of
from .model import Model

_STREAM = 7
"""Spawn key of exploration here; the training's generators are not used."""


class PolicyActor:
    """Maps observations of an environment to actions; a recurrent model continues from its last state.

    Args:
        model: the acting model.
        observation_space: of one environment.
        action_space: of one environment.
        seed: the run's.
    """

    def __init__(self, model: Model, observation_space: Any, action_space: Any, seed: int) -> None:
        self._model = model
        self._observation_space = observation_space
        self._normalization: dict[str, Any] | None = None
        self._observations = observations_in(observation_space)
        predict = model.program.predict
        self._exploration, self._rows = model.exploration_alone(), 0
        self._noise = predict.noise
        attributes = description.space_attributes(spaces.to_json(action_space))
        self._actions = actions_out(attributes, predict.outputs)
        self._rng = np.random.default_rng([seed, _STREAM])
        self._state: dict[str, Array] | None = None

    def __call__(self, policy: PolicySnapshot, observation: Any, explore: bool, first: Any) -> Any:
        """See ``Agent.act``."""
        normalization = normalization_of(policy.statistics)
        if normalization != self._normalization:
            self._normalization = normalization
            self._observations = observations_in(self._observation_space, normalization)
        features: Any
        features, single = self._observations.features(observation)
        if (rows := len(leaves(features)[0])) != self._rows:  # one of a user's may have a state per row
            self._exploration, self._rows = self._model.exploration_alone(), rows
        state = self._state_for(rows, first)
        if state is not None:
            features = {"observation": features, "state": state}
        with self._model.acting(policy) as act:
            draws = [request.draw(self._rng) for request in self._noise] if explore else []
            predictions, self._state = act(features, draws) if draws else act(features)
        if not explore:
            return self._actions(predictions["action"], single)
        self._model.tell_progress(self._exploration, policy.counters)
        actions, _ = self._exploration(predictions, policy.counters.global_timestep, self._rng)
        return self._actions(actions, single)

    def _state_for(self, size: int, first: Any) -> dict[str, Array] | None:
        """Recurrent state [B, ...] of these rows: zero where an episode begins."""
        begins = np.asarray(first)
        if begins.dtype != np.bool_ or begins.shape not in ((), (size,)):
            raise ArgumentError(f"first must be a bool or bool [{size}], got {first!r}", "first", first)
        fresh = self._model.fresh_state(size)
        if begins.any() and (reset := getattr(self._exploration, "reset", None)) is not None:
            reset(np.broadcast_to(begins, (size,)).copy())
        held = self._state
        if fresh is None or held is None or begins.all():
            return fresh
        if len(next(iter(held.values()))) != size:
            given = len(next(iter(held.values())))
            raise ValueError(
                f"act had {counted(given, 'observation')} before and now has {size}: pass first=True to start over"
            )
        state = {name: value.copy() for name, value in held.items()}
        for name, value in state.items():
            value[np.broadcast_to(begins, (size,))] = fresh[name][0]
        return state
