"""One update of an agent's networks.

Shapes in comments: R are the rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes
from ....models.blocks import trust_region
from ..specs.modules import kinds, terms
from .model import Model
from .objectives import Hyper, Rows, Setting, valid_mean
from .optimizers import Problem, Scalars, is_natural, make_step
from .policies import Inputs, Policy, View

Tensor: TypeAlias = Any
Form: TypeAlias = Mapping[str, Any]

_NAMES = ("loss", "policy_loss", "baseline_loss", "entropy", "regularization_loss")


class Training:
    """One update.

    Args:
        model: the networks.
        labels: the batch.
    """

    def __init__(self, model: Model, labels: Mapping[str, Any]) -> None:
        self._model, self._labels, self._form = model, labels, model.form
        self._hyper = Hyper(model.form, labels.get("hyper", {}))
        self._setting = Setting(self._hyper, model.estimator)
        self._valid = labels["valid"]
        baseline, own = model.baseline_form, model.baseline is not None and not model.is_copied
        self._has_objective = baseline.get("objective") is not None
        self._is_separate = self._has_objective and baseline.get("optimizer") is not None
        self._is_together = self._has_objective and not self._is_separate
        self._has_advantage = bool(model.form["reward_estimation"]["estimate_advantage"])
        self._is_through = own and not self._has_objective and self._has_advantage
        """Does the baseline learn by what is subtracted from the policy's returns?"""
        self._variables = list(model.policy.variables)
        if own and not self._is_separate:
            self._variables += model.estimator.variables
        self._likelihood = "policy_gradient" in kinds(model.objective)

    def run(self, inputs: Inputs) -> EstimatorSpec:
        """The spec of TRAIN."""
        rows: dict[str, Any] = {"inputs": inputs, "action": self._action(), "valid": self._valid}
        steps = self._optimizers()
        if self._model.is_copied:
            self._synchronize()
        rows["return"] = rows["target"] = tf.stop_gradient(self._returns())
        metrics: dict[str, Tensor] = {}
        first = tf.constant(0)
        if "baseline" in steps:
            metrics["baseline_loss"] = steps["baseline"](rows, first)["baseline_loss"]
        if self._has_advantage and not self._is_through:
            rows["target"] = tf.stop_gradient(rows["return"] - self._model.state_value(inputs))
        self._add_to_statistics(inputs)
        kl = self._remember(rows)
        metrics["empirical_reward"] = valid_mean(self._labels["reward"], self._valid)
        metrics["estimated_reward"] = valid_mean(self._target(rows), self._valid)
        before = trust_region.flat(self._variables)
        scalars = steps["policy"](rows, first)
        change = trust_region.flat(self._variables) - before
        metrics = {**scalars, **metrics, "update_norm": tf.sqrt(tf.reduce_sum(tf.square(change))), "kl": kl()}
        return EstimatorSpec(Modes.TRAIN, loss=metrics.pop("loss"), metrics=metrics)

    # -- what is learnt from ------------------------------------------------------------------------------------------

    def _action(self) -> dict[str, Tensor]:
        action = self._labels["action"]
        if isinstance(action, Mapping):
            return dict(action)
        return dict.fromkeys(self._model.policy.heads, action)

    def _returns(self) -> Tensor:
        """Rewards and the value of what follows, float32 [R]."""
        labels = self._labels
        if "next_observation" not in labels:
            return labels["reward"]
        following = {"observation": labels["next_observation"]}
        if "next_state" in labels:
            following |= {"internals": labels["next_state"], "window_valid": labels["next_window_valid"]}
        return labels["reward"] + labels["discount"] * self._model.state_value(following)

    def _remember(self, rows: dict[str, Any]) -> Callable[[], Tensor]:
        """Add the log-probabilities before the update, if ratios need them; returns how to measure the divergence."""
        if not self._likelihood:
            return lambda: tf.constant(0.0)
        before = self._model.policy(rows["inputs"], training=False).fixed()
        if any(term.get("ratio_based") for _, term in self._every_term()):
            rows["old"] = before.log_probs(rows["action"])

        def kl() -> Tensor:
            after = self._model.policy(rows["inputs"], training=False)
            return valid_mean(before.kl(after), self._valid)

        return kl

    def _add_to_statistics(self, inputs: Inputs) -> None:
        """Show the batch to layers with statistics, where an optimizer does not.

        A natural gradient runs layers on weights that stand for their variables, which then stay as they are.
        """
        by_policy = is_natural(self._form["optimizer"])
        by_baseline = is_natural(self._model.baseline_form["optimizer"]) if self._is_separate else by_policy
        shown = [self._model.policy] if by_policy else []
        if self._model.baseline is not None and not self._model.is_copied and by_baseline:
            shown.append(self._model.baseline)
        for policy in shown:
            if policy.network.untrained:
                policy(inputs, training=True, counted=self._valid)

    def _every_term(self) -> list[tuple[str, Form]]:
        return [*terms(self._model.objective), *terms(self._model.baseline_form.get("objective"))]

    def _synchronize(self) -> None:
        """Move the copy of the policy; the first update makes it equal."""
        path, step = "baseline/optimizer", self._labels["global_step"]
        period = tf.cast(tf.maximum(tf.round(self._hyper(f"{path}/sync_frequency")), 1.0), step.dtype)
        due = tf.where(tf.equal(step % period, 0), self._hyper(f"{path}/update_weight"), 0.0)
        share = tf.where(tf.equal(step, 0), 1.0, due)  # 1 and 0 leave what they multiply exact
        pairs = zip(self._model.policy.all_variables, self._model.estimator.all_variables, strict=True)
        for ours, theirs in pairs:
            theirs.assign(share * ours + (1.0 - share) * theirs)

    # -- what is minimised --------------------------------------------------------------------------------------------

    def _optimizers(self) -> dict[str, Any]:
        """Create the policy's optimizer, and the baseline's if it has its own, with their variables."""
        form, count = self._form, int(self._valid.shape[0])
        problem = Problem("policy", self._variables, _NAMES, self._losses, self._policy_divergence)
        steps = {"policy": make_step(form["optimizer"], "optimizer", problem, self._hyper, count, valid=self._valid)}
        if self._is_separate:
            spec, path = self._model.baseline_form["optimizer"], "baseline/optimizer"
            variables, names = self._model.estimator.variables, ("loss", "baseline_loss")
            own = Problem("baseline", variables, names, self._baseline_losses, self._baseline_divergence)
            steps["baseline"] = make_step(spec, path, own, self._hyper, count, valid=self._valid)
        return steps

    def _losses(self, rows: Rows) -> Scalars:
        """The policy's loss and its parts; a baseline's too, if they are trained together."""
        view = self._model.policy(rows["inputs"], training=True, counted=rows["valid"])
        errors = self._setting.errors(self._model.objective, "objective", view, rows, self._target(rows))
        policy_loss = valid_mean(errors, rows["valid"])
        entropy = valid_mean(view.entropy(), rows["valid"])
        regularization = self._squares(self._variables) - self._hyper("entropy_regularization") * entropy
        loss, baseline_loss = policy_loss + regularization, tf.constant(0.0)
        if self._is_together:
            baseline_loss = self._baseline_loss(rows, view)
            loss += self._weight() * baseline_loss
        return dict(zip(_NAMES, (loss, policy_loss, baseline_loss, entropy, regularization), strict=True))

    def _target(self, rows: Rows) -> Tensor:
        """Returns or advantages, float32 [R], which the policy's objective sees."""
        if self._is_through:
            return rows["return"] - self._model.state_value(rows["inputs"])
        return rows["target"]

    def _baseline_losses(self, rows: Rows) -> Scalars:
        """Losses of a separately trained baseline."""
        loss = self._baseline_loss(rows, None)
        return {"loss": loss + self._squares(self._model.estimator.variables), "baseline_loss": loss}

    def _baseline_loss(self, rows: Rows, view: View | None) -> Tensor:
        if view is None or self._model.estimator is not self._model.policy:
            view = self._model.estimator(rows["inputs"], training=True, counted=rows["valid"])
        objective = self._model.baseline_form["objective"]
        errors = self._setting.errors(objective, "baseline/objective", view, rows, rows["return"])
        return valid_mean(errors, rows["valid"])

    def _weight(self) -> Tensor:
        return 1.0 if self._model.baseline_form.get("weight") is None else self._hyper("baseline/weight")

    def _squares(self, variables: list[Any]) -> Tensor:
        """The l2 regularisation: the agent's, but for layers that have their own."""
        own = {**self._model.policy.network.l2, **self._model.estimator.network.l2}
        squares = {id(one): tf.reduce_sum(tf.square(tf.convert_to_tensor(one))) for one in variables}
        shared = [square for key, square in squares.items() if key not in own]
        total = self._hyper("l2_regularization") * tf.add_n(shared) if shared else tf.constant(0.0)
        return tf.add_n([total, *(own[key] * square for key, square in squares.items() if key in own)])

    def _policy_divergence(self, rows: Rows) -> Callable[[], Tensor]:
        """Divergence of all the policy's optimizer trains; without the baseline's its gradient drowns the rest."""
        parts = [self._divergence(self._model.policy, self._model.objective, rows)]
        if self._is_together:
            parts.append(self._baseline_divergence(rows))
        elif self._is_through:
            parts.append(_half_square(lambda: self._model.state_value(rows["inputs"]), rows))
        return lambda: tf.add_n([part() for part in parts])

    def _baseline_divergence(self, rows: Rows) -> Callable[[], Tensor]:
        return self._divergence(self._model.estimator, self._model.baseline_form["objective"], rows)

    def _divergence(self, policy: Policy, objective: Form, rows: Rows) -> Callable[[], Tensor]:
        """How far a policy goes: of likelihoods by their divergence, of values by half the square."""
        found = kinds(objective)
        if "state" in found:
            return _half_square(lambda: policy(rows["inputs"], training=False).state_value(), rows)
        if "action" in found:
            return _half_square(lambda: policy(rows["inputs"], training=False).action_values(rows["action"]), rows)
        before = policy(rows["inputs"], training=False).fixed()
        return lambda: valid_mean(before.kl(policy(rows["inputs"], training=False)), rows["valid"])


def _half_square(values: Callable[[], Tensor], rows: Rows) -> Callable[[], Tensor]:
    """Half the mean square of how far values, [R] or [R, C], are from what they are now."""
    start = tf.stop_gradient(values())

    def now() -> Tensor:
        change = tf.square(values() - start)
        each = change if change.shape.rank == 1 else tf.reduce_mean(change, axis=-1)
        return 0.5 * valid_mean(each, rows["valid"])

    return now
