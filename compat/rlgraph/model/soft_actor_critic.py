"""The model of SACAgent: core's soft actor-critic with the networks of a specification.

Source: Haarnoja et al. 2018b, https://arxiv.org/abs/1812.05905.

Shapes in comments: B is the batch, A the number of the action's components.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes, RunConfig
from ....models.blocks.box_actions import SquashedBox
from ....models.blocks.soft_actor_critic import SoftActorCritic, SoftParams
from ....models.blocks.soft_policies import SquashedPolicy
from ....models.blocks.temperature import Temperature
from ....models.blocks.train_step import mean_error
from ...common.layers.scopes import scopes
from ...common.value_specs import ValueSpec
from .networks import HeadedNetwork, Network, dense
from .optimizers import Optimizer

Tensor: TypeAlias = Any
Form: TypeAlias = Mapping[str, Any]
_ACTION: Final = "/action"
"""Name of the action among the critics' inputs; names of states never begin with a slash."""


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """Soft actor-critic.

    Predictions: ``action`` float32 [B, ...] in the action's units, the squashed mean; ``mean`` and ``log_std``
    float32 [B, ...] before squashing.

    Args:
        features: states by flat name.
        labels: the batch, with ``discount`` float32 [B] (0 after a terminal), ``weight`` and ``valid``, and the
            ``global_step``.
        mode: PREDICT or TRAIN, whose ``td_error`` is float32 [B], the root mean square over the critics.
        params: ``form``, the normal form; ``states``, specs by flat name; ``action_space``, a bounded Box of floats.
        config: not used.
    """
    del config
    form, states, actions = params["form"], params["states"], SquashedBox(params["action_space"], "SACAgent")
    policy = _Policy(form, states, actions)
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, policy.predictions(features, {}))
    critics, targets = (_Critics(prefix, form, states, actions.num_outputs) for prefix in ("q", "target-q"))
    soft = SoftParams(
        target_update_rate=form["value_function_sync_spec"]["sync_tau"],
        target_entropy=float(form["target_entropy"]),
        initial_temperature=form["initial_alpha"],
    )
    learner = SoftActorCritic(policy, critics, targets, Temperature(soft), soft, _lowest, _lowest, error=_error)
    updates, valid = labels["global_step"], labels["valid"]
    share = valid * (valid.shape[0] / tf.reduce_sum(valid))
    batch = {
        **{name: labels[name] for name in ("next_observation", "reward", "discount")},
        **policy.batch(labels["action"]),
        **{"observation": features, "share": share, "weight": share * labels["weight"]},
    }
    optimizer = Optimizer(form["value_function_optimizer_spec"], updates)
    td_error, scalars = learner.train_critics(batch, updates, optimizer)
    learner.train_policy(batch, *(Optimizer(form["optimizer_spec"], updates) for _ in range(2)))
    return EstimatorSpec(mode, loss=scalars["critic_loss"], td_error=td_error)


class _Policy(SquashedPolicy):
    """Policy from states by flat name to a Gaussian before squashing."""

    def __init__(self, form: Form, states: Mapping[str, ValueSpec], actions: SquashedBox) -> None:
        self._actions, self.action_size = actions, actions.num_outputs
        heads = {"output": [dense("output", 2 * self.action_size)]}
        self._torso = HeadedNetwork("policy", form, states, heads)
        self.variables = self._torso.variables

    def distribution_parameters(self, seen: Mapping[str, Tensor], *, training: bool = False) -> dict[str, Tensor]:
        mean, log_std = tf.split(self._torso(seen)["output"], 2, axis=-1)
        return {"mean": mean, "log_std": log_std}


class _Critics:
    """One or two critics, from states by flat name and squashed actions to values."""

    def __init__(self, prefix: str, form: Form, states: Mapping[str, ValueSpec], size: int) -> None:
        self._networks = []
        inputs = {**states, _ACTION: ValueSpec("", "float", (size,))}
        hidden = [layer for layer in form["value_function_spec"] if layer["type"] != "concat"]
        for index in range(2 if form["double_q"] else 1):
            with scopes(f"{prefix}-{index}"):
                layers = [{"type": "concat"}, *hidden, dense("value", 1)]
                self._networks.append(Network("value_function_spec", layers, inputs))
        self.variables = [variable for network in self._networks for variable in network.variables]

    def __call__(self, seen: Mapping[str, Tensor], action: Tensor) -> list[Tensor]:
        """Values float32 [B] each, of actions [B, A] in -1 .. 1."""
        return [tf.reshape(network({**seen, _ACTION: action}), [-1]) for network in self._networks]


def _lowest(values: Sequence[Tensor], batch: Mapping[str, Any]) -> Tensor:
    """The smallest value over the critics, float32 [B]."""
    return tf.reduce_min(tf.stack(values), axis=0)


def _error(goal: Tensor, values: Sequence[Tensor], batch: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """The weighted mean square over the critics, and its root [B]."""
    goal = tf.stop_gradient(goal)
    each = tf.add_n([tf.square(goal - value) for value in values]) / len(values)
    return mean_error(each, batch), tf.sqrt(each)
