"""Tianshou, on torch."""

from __future__ import annotations

from typing import Any

import torch
from tianshou.algorithm import C51, DQN, QRDQN
from tianshou.algorithm.modelfree.c51 import C51Policy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.qrdqn import QRDQNPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedReplayBuffer, ReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step

from .. import settings
from ..settings import NETWORKS
from ..timing import seconds_of

torch.set_num_threads(settings.threads())


def q_learning(algorithm: str, update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of ``run_training``, which collects ``update_frequency`` timesteps for each update."""
    env = settings.cartpole()
    learner = learner_for(algorithm, env.action_space, settings.TARGET_UPDATE_TIMESTEPS // update_frequency)
    given = {"alpha": settings.ALPHA, "beta": settings.BETA}
    size, is_prioritized = settings.MEMORY_SIZE, algorithm == "prioritized DQN"
    buffer = PrioritizedReplayBuffer(size, **given) if is_prioritized else ReplayBuffer(size)
    collector: Any = Collector(learner, DummyVectorEnv([lambda: env]), buffer, exploration_noise=True)
    collector.reset()
    with policy_within_training_step(learner.policy):
        collector.collect(n_step=settings.FIRST_UPDATE)

    def train(count: int) -> None:
        learner.run_training(
            OffPolicyTrainerParams(
                training_collector=collector,
                max_epochs=1,
                epoch_num_steps=count,
                collection_step_num_env_steps=update_frequency,
                update_step_num_gradient_steps_per_sample=1 / update_frequency,
                batch_size=settings.BATCH_SIZE,
                verbose=False,
                show_progress=False,
            )
        )

    train(settings.WARM_UP_TIMESTEPS - settings.FIRST_UPDATE)
    return {"": timesteps / seconds_of(lambda: train(timesteps))}


def learner_for(algorithm: str, actions: Any, target_update_freq: int) -> Any:
    """An algorithm with the settings that everyone has. Its gradients are not clipped."""
    kind, policy, outputs, of_policy, of_kind = ALGORITHMS[algorithm]
    network = NETWORKS["2x64"]
    net: Any = Net(
        state_shape=network.shape,
        action_shape=network.actions,
        hidden_sizes=list(network.hidden),
        softmax=kind is C51,
        num_atoms=outputs,
    )
    return kind(
        policy=policy(model=net, action_space=actions, eps_training=settings.EPSILON, **of_policy),
        optim=AdamOptimizerFactory(lr=settings.LEARNING_RATE),
        gamma=settings.DISCOUNT,
        target_update_freq=target_update_freq,
        **of_kind,
    )


C51_POLICY = {"num_atoms": settings.C51["atoms"], "v_min": settings.C51["v_min"], "v_max": settings.C51["v_max"]}
ALGORITHMS: dict[str, Any] = {
    "prioritized DQN": (DQN, DiscreteQLearningPolicy, 1, {}, {"is_double": False}),
    "C51": (C51, C51Policy, settings.C51["atoms"], C51_POLICY, {}),
    "QR-DQN": (QRDQN, QRDQNPolicy, settings.QUANTILES, {}, {"num_quantiles": settings.QUANTILES}),
}
"""Classes of algorithm and policy, numbers for each action, and arguments of both classes."""
