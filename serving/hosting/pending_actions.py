"""Acting of a hosted agent, and what it remembers of each act until the step comes back."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.protocols import Array, ArrayTree
from ...core.trees import leaves
from ...estimators.stepper import Stepper
from ...explorations import EpsilonGreedy
from ..refusals import invalid
from .transitions import select, stack
from .values import Actions

EPSILON: Final = "epsilon"
GAUSSIAN: Final = "gaussian"
DRAWN: Final = "drawn"
_REMEMBERED: Final = 64
"""Number of environments whose last act is remembered."""


class _Act(NamedTuple):
    """The last act in an environment: observation, action sent, and values to store if it was taken."""

    saw: bytes
    sent: bytes
    action: Array
    recorded: Mapping[str, Any]


class PendingActions:
    """Acts with a stepper's weights, without any effect on learning.

    Args:
        stepper: stepper of one lane, without a recurrent state.
        actions: actions of its space.
        noise: meaning of an act's ``noise``: ``"epsilon"``, the probability of a random action; ``"gaussian"``, a
            standard deviation in half-ranges; ``"drawn"``, none, as actions are drawn from the policy.
    """

    def __init__(self, stepper: Stepper, actions: Actions, noise: str) -> None:
        self._stepper = stepper
        self._actions = actions
        self._kind = noise
        self._names = stepper.behaviour.recorded
        self._rng = np.random.default_rng()  # a new stream after each start: learning does not depend on it
        self._last: collections.OrderedDict[str, _Act] = collections.OrderedDict()
        if not actions.discrete:
            self._half = (actions.high - actions.low) / np.float32(2)

    def act(self, observations: ArrayTree, environments: Sequence[str], noise: float, explore: bool | None) -> Array:
        """Actions [N, ...] for clients to take.

        Args:
            observations: observations [N, ...].
            environments: their environments.
            noise: 0 .. 1, of this agent's kind.
            explore: None for ``noise``; True for the behaviour policy; False for greedy actions.
        """
        chosen, recorded = self._choose(observations, len(environments), noise, explore)
        sent = self._actions.sent(chosen)
        if self._names and recorded is not None:
            for k, environment in enumerate(environments):
                values = {name: value[k] for name, value in recorded.items()}
                saw = _as_bytes(select(observations, (k, ...)))
                self._last[environment] = _Act(saw, sent[k].tobytes(), chosen[k], values)
                self._last.move_to_end(environment)
            while len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
        return sent

    def _choose(
        self, batch: ArrayTree, size: int, noise: float, explore: bool | None
    ) -> tuple[Array, Mapping[str, Any] | None]:
        """Actions [N, ...], and the values recorded with them; None if no behaviour policy chose them."""
        stepper = self._stepper
        if explore or (explore is None and self._kind == DRAWN):
            if size == 1:
                action, recorded = stepper.act(batch)
                return np.asarray(action), recorded
            each = [stepper.act(select(batch, slice(k, k + 1))) for k in range(size)]
            merged = {name: np.concatenate([r[name] for _, r in each]) for name in each[0][1]}
            return np.concatenate([np.asarray(action) for action, _ in each]), merged
        predictions, _ = stepper.executor.act(batch)
        greedy: Array = predictions["action"]
        if explore is False or noise == 0:
            return greedy, None
        if self._kind == EPSILON:
            return EpsilonGreedy(noise, self._actions.space)(predictions, 0, self._rng)[0], None
        drawn = self._rng.standard_normal(greedy.shape, np.float32)
        return greedy + np.float32(noise) * self._half * drawn, None

    def recorded_action(
        self, environment: str, observation: ArrayTree, action: Array
    ) -> tuple[Array, Mapping[str, Any]] | None:
        """The action to store, and the values recorded with it, if the environment's last act sent this action.

        Returns:
            None if they must be computed anew, with the current weights.
        """
        if not self._names:
            return action, {}
        last = self._last.get(environment)
        if last is not None and last.sent == action.tobytes() and last.saw == _as_bytes(observation):
            return last.action, last.recorded
        return None

    def check(self, observation: ArrayTree, action: Array, where: str) -> None:
        """Raise RefusedError for an action whose probability under the current policy is 0 or unknown."""
        try:
            recorded_anew(self._stepper, observation, action)
        except ValueError as error:
            raise invalid(where, str(error)) from None


def recorded_anew(stepper: Stepper, observation: ArrayTree, action: Array) -> dict[str, Any]:
    """Values that an act would have recorded if the current policy had taken this action.

    Raises:
        ValueError: the action's probability is 0 or unknown.
    """
    return {name: value[0] for name, value in recorded_for(stepper, stack([observation]), action[None]).items()}


def recorded_for(stepper: Stepper, observations: Any, actions: Array) -> dict[str, Array]:
    """:func:`recorded_anew` for observations [N, ...] and actions [N, ...]."""
    predictions, _ = stepper.executor.act(observations)
    exploration: Any = stepper.exploration
    found: dict[str, Array] = {}
    for name in stepper.behaviour.recorded:
        if name in predictions:
            found[name] = predictions[name]
            continue
        value = exploration.log_prob_of(predictions, actions)
        if not np.isfinite(value).all():
            raise ValueError("has no probability in the agent's policy")
        found[name] = value
    return found


def _as_bytes(observation: ArrayTree) -> bytes:
    return b"".join(array.tobytes() for array in leaves(observation))
