"""The ``model_fn`` of all agents: builds the networks of a normal form, predicts, and updates.

Shapes in comments: R are the rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes, RunConfig
from ....models.blocks import trust_region
from ..specs.modules import kinds, terms
from .model import Model
from .objectives import Hyper, Objectives, Rows, valid_mean
from .optimizers import Problem, Scalars, is_natural, make_step
from .policies import Inputs, Policy, View

Tensor: TypeAlias = Any
Form: TypeAlias = Mapping[str, Any]
_NAMES = ("loss", "policy_loss", "baseline_loss", "entropy", "regularization_loss")


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """The model of an agent.

    Predictions: ``action``, greedy: a tensor, or a dictionary of tensors for several actions; and for each action ``a``
    ``logits/a`` float32 [B, ..., K] of an int (action values, if these are learnt), ``logit/a`` of a bool, ``mean/a``
    and ``stddev/a``, or ``alpha/a`` and ``beta/a``, of a float. Metrics, averaged over the optimizer's steps:
    ``policy_loss``, ``baseline_loss``, ``entropy``, ``regularization_loss``; and ``update_norm`` (norm of the change of
    all weights trained by the policy's optimizer) and ``kl`` (divergence of the policy after the update from the one
    before; 0 without likelihoods).

    Args:
        features: states and masks by name, or ``observation`` and ``state`` (internals).
        labels: the batch; means are over its ``valid`` rows.
        mode: PREDICT or TRAIN.
        params: ``form``, the normal form; ``states`` and ``actions``, ValueSpecs by flat name.
        config: not used.

    Raises:
        TensorforceError: networks, objectives and actions do not fit one another.
    """
    del config
    predicts = mode == Modes.PREDICT
    model = Model(params["form"], params["states"], params["actions"], trains=not predicts)
    inputs: dict[str, Any] = {"observation": dict(features)}
    if isinstance(features.get("observation"), Mapping):
        inputs = {"observation": dict(features["observation"]), "internals": dict(features["state"])}
        inputs |= {} if predicts else {"window_valid": labels["window_valid"]}
    return model.predict(inputs) if predicts else _Update(model, labels).run(inputs)


class _Update:
    """One update of an agent's networks with a batch."""

    def __init__(self, model: Model, labels: Mapping[str, Any]) -> None:
        self._model, self._labels, self._valid = model, labels, labels["valid"]
        self._hyper = Hyper(model.form, labels.get("hyper", {}))
        self._objectives = Objectives(self._hyper, model.estimator)
        baseline, own = model.baseline_form, model.baseline is not None and not model.is_copied
        self._target_kinds = kinds(model.objective)
        self._objective: Any = baseline.get("objective")
        self._is_separate = self._objective is not None and baseline.get("optimizer") is not None
        self._is_together = self._objective is not None and not self._is_separate
        self._has_advantage = bool(model.form["reward_estimation"]["estimate_advantage"])
        self._is_through = own and self._objective is None and self._has_advantage
        """Does the baseline learn through the advantages in the policy loss?"""
        self._variables = list(model.policy.variables)
        if own and not self._is_separate:
            self._variables += model.estimator.variables

    def run(self, inputs: Inputs) -> EstimatorSpec:
        """The spec of TRAIN."""
        model, action = self._model, self._labels["action"]
        action = dict(action) if isinstance(action, Mapping) else dict.fromkeys(model.policy.heads, action)
        rows: dict[str, Any] = {"inputs": inputs, "action": action, "valid": self._valid}
        steps, metrics, first = self._optimizers(), dict[str, Tensor](), tf.constant(0)
        if model.is_copied:
            self._synchronize()
        rows["return"] = rows["target"] = tf.stop_gradient(self._returns())
        if "baseline" in steps:
            metrics["baseline_loss"] = steps["baseline"](rows, first)["baseline_loss"]
        if self._has_advantage and not self._is_through:
            rows["target"] = tf.stop_gradient(rows["return"] - model.state_value(inputs))
        self._add_to_statistics(inputs)
        start = self._policy(inputs).without_gradients() if "policy_gradient" in self._target_kinds else None
        if start is not None and any(
            term.get("ratio_based") for part in (model.objective, self._objective) for _, term in terms(part)
        ):
            rows["old"] = start.log_probs(action)
        metrics["empirical_reward"] = valid_mean(self._labels["reward"], self._valid)
        metrics["estimated_reward"] = valid_mean(self._target(rows), self._valid)
        before = trust_region.flat(self._variables)
        scalars = steps["policy"](rows, first)
        change = trust_region.flat(self._variables) - before
        kl = tf.constant(0.0) if start is None else valid_mean(start.kl(self._policy(inputs)), self._valid)
        metrics = {**scalars, **metrics, "update_norm": tf.sqrt(tf.reduce_sum(tf.square(change))), "kl": kl}
        return EstimatorSpec(Modes.TRAIN, loss=metrics.pop("loss"), metrics=metrics)

    # -- targets ------------------------------------------------------------------------------------------------------

    def _policy(self, inputs: Inputs) -> View:
        return self._model.policy(inputs, training=False)

    def _returns(self) -> Tensor:
        """Returns plus the value of the next observation, float32 [R]."""
        labels = self._labels
        if "next_observation" not in labels:
            return labels["reward"]
        following = {"observation": labels["next_observation"]}
        if "next_state" in labels:
            following |= {"internals": labels["next_state"], "window_valid": labels["next_window_valid"]}
        return labels["reward"] + labels["discount"] * self._model.state_value(following)

    def _add_to_statistics(self, inputs: Inputs) -> None:
        """Run the batch through layers with statistics, if the optimizer does not.

        A natural gradient runs layers on substituted weights, which does not update their statistics.
        """
        model = self._model
        by_policy = is_natural(model.form["optimizer"])
        by_baseline = is_natural(model.baseline_form["optimizer"]) if self._is_separate else by_policy
        baseline = None if model.is_copied else model.baseline
        for policy, is_shown in ((model.policy, by_policy), (baseline, by_baseline)):
            if is_shown and policy is not None and policy.network.untrained:
                policy(inputs, training=True, counted=self._valid)

    def _synchronize(self) -> None:
        """Update the copy of the policy; the first update makes it equal."""
        path, step = "baseline/optimizer", self._labels["global_step"]
        period = tf.cast(tf.maximum(tf.round(self._hyper(f"{path}/sync_frequency")), 1.0), step.dtype)
        due = tf.where(tf.equal(step % period, 0), self._hyper(f"{path}/update_weight"), 0.0)
        share = tf.where(tf.equal(step, 0), 1.0, due)  # products with 1 and 0 are exact
        pairs = zip(self._model.policy.all_variables, self._model.estimator.all_variables, strict=True)
        for ours, theirs in pairs:
            theirs.assign(share * ours + (1.0 - share) * theirs)

    # -- losses -------------------------------------------------------------------------------------------------------

    def _optimizers(self) -> dict[str, Any]:
        """Create the policy's optimizer, and the baseline's if it has its own, with their variables."""
        model, count = self._model, int(self._valid.shape[0])
        problem = Problem("policy", self._variables, _NAMES, self._losses, self._policy_divergence)
        given = {"optimizer": (model.form["optimizer"], problem)}
        if self._is_separate:
            names = ("loss", "baseline_loss")
            own = Problem(
                "baseline", model.estimator.variables, names, self._baseline_losses, self._baseline_divergence
            )
            given["baseline/optimizer"] = model.baseline_form["optimizer"], own
        return {
            one.scope: make_step(spec, path, one, self._hyper, count, valid=self._valid)
            for path, (spec, one) in given.items()
        }

    def _losses(self, rows: Rows) -> Scalars:
        """The policy loss and its parts, including the baseline's if both are trained together."""
        view = self._model.policy(rows["inputs"], training=True, counted=rows["valid"])
        errors = self._objectives(self._model.objective, "objective", view, rows, self._target(rows))
        policy_loss = valid_mean(errors, rows["valid"])
        entropy = valid_mean(view.entropy(), rows["valid"])
        regularization = self._squares(self._variables) - self._hyper("entropy_regularization") * entropy
        loss, baseline_loss = policy_loss + regularization, tf.constant(0.0)
        if self._is_together:
            baseline_loss = self._baseline_loss(rows, view)
            is_weighted = self._model.baseline_form.get("weight") is not None
            loss += (self._hyper("baseline/weight") if is_weighted else 1.0) * baseline_loss
        return dict(zip(_NAMES, (loss, policy_loss, baseline_loss, entropy, regularization), strict=True))

    def _target(self, rows: Rows) -> Tensor:
        """The targets of the policy's objective, returns or advantages, float32 [R]."""
        return rows["return"] - self._model.state_value(rows["inputs"]) if self._is_through else rows["target"]

    def _baseline_losses(self, rows: Rows) -> Scalars:
        """Losses of a separately trained baseline."""
        loss = self._baseline_loss(rows, None)
        return {"loss": loss + self._squares(self._model.estimator.variables), "baseline_loss": loss}

    def _baseline_loss(self, rows: Rows, view: View | None) -> Tensor:
        if view is None or self._model.estimator is not self._model.policy:
            view = self._model.estimator(rows["inputs"], training=True, counted=rows["valid"])
        errors = self._objectives(self._objective, "baseline/objective", view, rows, rows["return"])
        return valid_mean(errors, rows["valid"])

    def _squares(self, variables: list[Any]) -> Tensor:
        """The L2 regularization: the agent's, except for layers with their own."""
        own = {**self._model.policy.network.l2, **self._model.estimator.network.l2}
        squares = {id(one): tf.reduce_sum(tf.square(tf.convert_to_tensor(one))) for one in variables}
        shared = [square for key, square in squares.items() if key not in own]
        total = self._hyper("l2_regularization") * tf.add_n(shared) if shared else tf.constant(0.0)
        return tf.add_n([total, *(own[key] * square for key, square in squares.items() if key in own)])

    def _policy_divergence(self, rows: Rows) -> Callable[[], Tensor]:
        """Divergence of everything that the policy's optimizer trains; else the baseline's gradient would dominate."""
        parts = [_divergence(self._model.policy, self._target_kinds, rows)]
        if self._is_together:
            parts.append(self._baseline_divergence(rows))
        elif self._is_through:
            parts.append(_half_square(lambda: self._model.state_value(rows["inputs"]), rows))
        return lambda: tf.add_n([part() for part in parts])

    def _baseline_divergence(self, rows: Rows) -> Callable[[], Tensor]:
        return _divergence(self._model.estimator, kinds(self._objective), rows)


def _divergence(policy: Policy, found: set[str], rows: Rows) -> Callable[[], Tensor]:
    """Function that returns a policy's change since now: KL divergence, or half the squared change of values."""

    def view() -> View:
        return policy(rows["inputs"], training=False)

    if "state" in found:
        return _half_square(lambda: view().state_value(), rows)
    if "action" in found:
        return _half_square(lambda: view().action_values(rows["action"]), rows)
    before = view().without_gradients()
    return lambda: valid_mean(before.kl(view()), rows["valid"])


def _half_square(values: Callable[[], Tensor], rows: Rows) -> Callable[[], Tensor]:
    """Function that returns half the mean squared change of values since now, [R] or [R, C]."""
    start = tf.stop_gradient(values())

    def now() -> Tensor:
        change = tf.square(values() - start)
        return 0.5 * valid_mean(change if change.shape.rank == 1 else tf.reduce_mean(change, axis=-1), rows["valid"])

    return now
