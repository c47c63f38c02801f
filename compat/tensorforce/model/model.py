"""The networks of an agent, and what they predict.

Shapes in comments: B is the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes
from ...common.value_specs import ValueSpec
from ..specs.modules import internal_lengths, kinds
from .policies import Inputs, Needs, Policy

Tensor: TypeAlias = Any
Form: TypeAlias = Mapping[str, Any]


class Model:
    """The networks of an agent.

    Args:
        form: the normal form.
        states: specs by flat name.
        actions: likewise.
        trains: are networks needed that do not act?
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
        estimation = form["reward_estimation"]
        estimates = bool(estimation["estimate_horizon"] or estimation["estimate_advantage"])
        of_actions = bool(estimation.get("estimate_actions"))
        needs = _needs(policy_kinds, form["policy"], of_actions, estimates=estimates and not own)
        needs = needs._replace(distributions=True)
        self.policy = Policy("policy", form["policy"], states, actions, needs, dueling=form["dueling"])
        self.baseline: Policy | None = None
        if own and (trains or internal_lengths(own["network"])):
            baseline_needs = _needs(baseline_kinds, own, of_actions, estimates=estimates)
            self.baseline = Policy("baseline", own, states, actions, baseline_needs, prefix="baseline-")
        elif self.is_copied and trains:
            # Its internals are the policy's: those are what is stored.
            self.baseline = Policy("baseline", form["policy"], states, actions, needs, dueling=form["dueling"])
        self.values_actions = _values_actions(
            baseline_kinds if own else policy_kinds, own or form["policy"], of_actions
        )

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

        Where it values actions, it is the mean over the policy's probabilities if the policy has a likelihood to
        improve, else the highest legal value (of a critic of floats: that of the policy's greedy action).
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


def _values_actions(found: set[str], policy: Form, of_actions: bool) -> bool:
    """Are a policy's values of states those of its actions?"""
    inferred = of_actions or policy.get("infer_state_value") == "action-values"
    return "state" not in found and ("action" in found or inferred)


def _needs(found: set[str], policy: Form, of_actions: bool, *, estimates: bool) -> Needs:
    """Needs of a policy for its objectives, and to estimate values of states."""
    inferred = _values_actions(found, policy, of_actions)
    return Needs(
        distributions=bool(found & {"policy_gradient", "deterministic_policy_gradient"}),
        action_values="action" in found or (estimates and inferred),
        state_value="state" in found or (estimates and not inferred),
    )
