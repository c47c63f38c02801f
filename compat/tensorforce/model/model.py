"""The networks of an agent, and their predictions.

Shapes in comments: B is the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes
from ...common.value_specs import ValueSpec
from ..specs.modules import internal_lengths, kinds
from .policies import Inputs, Policy

Tensor: TypeAlias = Any
Form: TypeAlias = Mapping[str, Any]


class Model:
    """The networks of an agent.

    Args:
        form: the normal form.
        states: specs of the states by flat name.
        actions: specs of the actions by flat name.
        trains: also create networks that are only needed in training?
    """

    def __init__(
        self, form: Form, states: Mapping[str, ValueSpec], actions: Mapping[str, ValueSpec], *, trains: bool
    ) -> None:
        self.form, self._actions = form, actions
        self.objective, self.baseline_form = form["objective"], form["baseline"] or {}
        self.is_copied = (self.baseline_form.get("optimizer") or {}).get("type") == "synchronization"
        own = self.baseline_form.get("policy") if not self.is_copied else None
        baseline_kinds = kinds(self.baseline_form.get("objective"))
        policy_kinds = kinds(self.objective) | (set() if own else baseline_kinds)
        given: dict[str, Any] = {
            "acts": True,
            "dueling": form["dueling"],
            **_values(form, form["policy"], policy_kinds),
        }
        if own:  # estimates values of states
            given |= {"values_actions": "action" in policy_kinds, "values_states": "state" in policy_kinds}
        self.policy = Policy("policy", form["policy"], states, actions, **given)
        self.baseline: Policy | None = None
        if own and (trains or internal_lengths(own["network"])):
            acts = bool(baseline_kinds & {"policy_gradient", "deterministic_policy_gradient"})
            values = _values(form, own, baseline_kinds)
            self.baseline = Policy("baseline", own, states, actions, acts=acts, **values, prefix="baseline-")
        elif self.is_copied and trains:
            # Its internals are the policy's, because those are stored.
            self.baseline = Policy("baseline", form["policy"], states, actions, **given)
        self.values_actions = _infers(form, own or form["policy"], baseline_kinds if own else policy_kinds)

    @property
    def estimator(self) -> Policy:
        """Estimator of values: the baseline, else the policy."""
        return self.baseline or self.policy

    def predict(self, inputs: Inputs) -> EstimatorSpec:
        """The spec of PREDICT."""
        view = self.policy(inputs, training=False)
        following = dict(view.following)
        if self.baseline is not None:
            following |= self.baseline(inputs, training=False).following
        action: Any = view.greedy()
        if len(action) == 1:
            (action,) = action.values()
        predictions = {"action": action, **view.predictions()}
        return EstimatorSpec(Modes.PREDICT, predictions, state=following or None)

    def state_value(self, inputs: Inputs) -> Tensor:
        """The estimator's value of states, float32 [B].

        From action values, it is their mean under the policy if the policy's likelihood is trained, else the highest
        legal value (for a critic of float actions, the value of the policy's greedy action).
        """
        view = self.estimator(inputs, training=False)
        if not self.values_actions:
            return view.state_value()
        acting = view if self.estimator is self.policy else self.policy(inputs, training=False)
        if self.estimator.critic is not None:
            return tf.reshape(view.action_values(acting.greedy()), [-1])
        if "policy_gradient" in kinds(self.objective):
            return tf.reduce_mean(view.expected_values(acting), axis=-1)
        return tf.reduce_mean(view.best_values(acting if self.form["double"] else None), axis=-1)


def _infers(form: Form, policy: Form, found: set[str]) -> bool:
    """Are a policy's state values derived from its action values?"""
    is_asked = form["reward_estimation"].get("estimate_actions") or policy.get("infer_state_value") == "action-values"
    return "state" not in found and bool("action" in found or is_asked)


def _values(form: Form, policy: Form, found: set[str]) -> dict[str, bool]:
    """The values that a policy needs for its objectives and for state values."""
    estimation, inferred = form["reward_estimation"], _infers(form, policy, found)
    estimates = bool(estimation["estimate_horizon"] or estimation["estimate_advantage"])
    return {
        "values_actions": "action" in found or (estimates and inferred),
        "values_states": "state" in found or (estimates and not inferred),
    }
