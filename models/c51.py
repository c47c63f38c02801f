"""C51: Q-learning with a categorical distribution over returns instead of their mean.

Sources: Bellemare et al. 2017 (https://arxiv.org/abs/1707.06887), whose equations are cited below; double selection and
priorities as in Hessel et al. 2018 (https://arxiv.org/abs/1710.02298). Differences from the papers:
docs/algorithms/c51.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import Linear, ScheduleLike
from ..core.tensorflow_import import tf
from .blocks import distributional
from .blocks.losses import action_values
from .blocks.params import flag, from_params, integer, param, real
from .blocks.q_networks import QNetwork, QParams, QTask
from .blocks.train_step import learning_spec, mean_error


@dataclasses.dataclass(frozen=True, kw_only=True)
class C51Params(QParams):
    """The parameters of C51."""

    algorithm: ClassVar = "C51"  # for error messages
    learning_rate: ScheduleLike = 2.5e-4  # from the paper, like atoms, v_min and v_max
    epsilon: ScheduleLike = Linear(1.0, 0.01, 10_000)
    atoms: int = param(51, "number of possible returns, evenly spaced from `v_min` to `v_max`", integer(at_least=2))
    v_min: float = param(-10.0, "lowest return; lower ones are clipped to it", real())
    v_max: float = param(10.0, "highest return; higher ones are clipped to it", real())
    double: bool = param(False, "the online network selects the next action, not the target network", flag())

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.v_min >= self.v_max:
            raise ArgumentError(f"v_min must be below v_max, got {self.v_min} and {self.v_max}", "v_min", self.v_min)
        distributional.support(self.v_min, self.v_max, self.atoms)  # refuses atoms that are equal in float32


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | C51Params | None, config: RunConfig
) -> EstimatorSpec:
    """C51, for a ReplayMemory.

    Predictions: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A] (expected returns), A being
    the sum of a MultiDiscrete space's choices, ``probabilities`` float32 [B, A, atoms], ``noisy_action`` like
    ``action`` where layers are noisy, and ``action_mask`` bool [B, A] where observations have a mask. Metrics:
    ``q_mean`` (of the actions taken), ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not supported, the observations do not fit, the memory does not yield single
            transitions, or a parameter is invalid.
    """
    params = from_params(C51Params, params)
    task = QTask(config, mode, params, params.algorithm)
    branches, noisy = task.branches, task.noisy
    atoms = distributional.support(params.v_min, params.v_max, params.atoms)  # z, [N]
    network = partial(QNetwork, task=task, outputs=params.atoms, head="logits")

    def log_probs(network: QNetwork, observation: Any, *, noisy: bool = noisy) -> Any:  # log p(s, a), [B, A, N]
        return tf.nn.log_softmax(network(observation, noisy=noisy))

    def values(log_p: Any) -> Any:
        return distributional.expected_values(log_p, atoms)

    online = network("online")
    if mode == Modes.PREDICT:
        log_p = log_probs(online, features, noisy=False)
        noisy_values = values(log_probs(online, features)) if noisy else None
        return task.predict(features, values(log_p), noisy_values, probabilities=tf.exp(log_p))

    target = task.target(network, online, labels)
    next_observation = labels["next_observation"]
    log_p = branches.rows(log_probs(online, features))  # [B * K, n, N]; K = 1 except for MultiDiscrete actions
    next_log_p = branches.rows(log_probs(target, next_observation))
    selector = branches.rows(log_probs(online, next_observation)) if params.double else next_log_p
    next_action = task.best(values(selector), next_observation)  # [B * K]
    next_p = branches.mean(tf.exp(distributional.of_action(next_log_p, next_action)))  # [B, N]
    m = distributional.projected_target(labels["reward"], labels["discount"], next_p, atoms)  # equation 7
    m, action = branches.spread(m), branches.from_environment(labels["action"])
    taken = distributional.of_action(log_p, action)  # [B * K, N]
    loss = mean_error(branches.mean(distributional.cross_entropy(m, taken)), labels)  # algorithm 1
    td_error = branches.priority(distributional.divergence(m, taken))  # the priority of Hessel et al.
    metrics = {"q_mean": tf.reduce_mean(action_values(values(log_p), action))}
    return learning_spec(mode, loss, online.variables, labels, params, td_error=td_error, metrics=metrics)
