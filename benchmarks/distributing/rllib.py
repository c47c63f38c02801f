"""RLlib: ``python -m axonrl.benchmarks.distributing.rllib '{"algorithm": "IMPALA", "runners": 1, ...}'``."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any, Final

import ray
import torch
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from . import settings
from .window import Window

CORES: Final = 2
STORE_BYTES: Final = 256 * 2**20
"""Shared memory of Ray's object store, as axonrl's clusters have it."""
SHARE: Final = 0.5
"""Share of a core for each process: three of them, the learner included, would wait for a third core."""


def impala(algorithm: str, runners: int, learners: int = 0, wait_s: float = 0.0) -> Any:
    """IMPALA or APPO.

    Args:
        algorithm: which.
        runners: processes that step environments.
        learners: processes that learn; 0: the driver does.
        wait_s: how long the driver waits for samples; RLlib's own 0 asks again and again.
    """
    config = IMPALAConfig() if algorithm == "IMPALA" else APPOConfig()
    config = config.env_runners(
        num_env_runners=runners,
        num_envs_per_env_runner=settings.ENVIRONMENTS,
        rollout_fragment_length=settings.UNROLL,
        num_cpus_per_env_runner=SHARE,
    ).learners(num_learners=learners, num_cpus_per_learner=SHARE if learners else "auto")
    config = config.training(
        lr=settings.LEARNING_RATE,
        gamma=settings.DISCOUNT,
        train_batch_size_per_learner=settings.ROLLOUT,
        vf_loss_coeff=settings.VALUE_COEFFICIENT,
        entropy_coeff=settings.ENTROPY_COEFFICIENT,
        grad_clip=settings.MAX_GRADIENT_NORM,
        grad_clip_by="global_norm",
        broadcast_interval=1,
        timeout_s_sampler_manager=wait_s,
    )
    network = DefaultModelConfig(fcnet_hiddens=list(settings.HIDDEN), fcnet_activation="tanh", vf_share_layers=True)
    config = config.rl_module(model_config=network)
    if algorithm == "APPO":
        config = config.training(
            clip_param=0.4,
            circular_buffer_num_batches=8,
            circular_buffer_iterations_per_batch=2,
            target_network_update_freq=2,
        )
    return config


def dqn(runners: int) -> Any:
    """DQN; it samples and learns in turn."""
    # RLlib reckons with one more process that samples than there are: asked for half, it trains as often as it is to.
    intensity = settings.BATCH_SIZE / settings.UPDATE_FREQUENCY / (2 if runners else 1)
    network = DefaultModelConfig(fcnet_hiddens=list(settings.HIDDEN), fcnet_activation="relu")
    return (
        DQNConfig()
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=settings.DQN_ENVIRONMENTS,
            rollout_fragment_length="auto",
            num_cpus_per_env_runner=SHARE,
        )
        .learners(num_learners=0)
        .rl_module(model_config=network)
        .training(
            lr=settings.LEARNING_RATE,
            gamma=settings.DISCOUNT,
            train_batch_size_per_learner=settings.BATCH_SIZE,
            training_intensity=intensity,
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer",
                "capacity": settings.MEMORY_SIZE,
                "alpha": settings.ALPHA,
                "beta": settings.BETA,
            },
            n_step=settings.N_STEP,
            double_q=True,
            dueling=True,
            grad_clip=settings.MAX_GRADIENT_NORM,
            target_network_update_freq=settings.TARGET_UPDATE_TIMESTEPS,
            num_steps_sampled_before_learning_starts=settings.FIRST_UPDATE,
        )
    )


class Counters:
    """Counters of a run, added up from its results."""

    def __init__(self) -> None:
        self.updates = 0.0

    def after(self, result: Mapping[str, Any]) -> dict[str, float]:
        """The counters with one more result; RLlib counts timesteps for life, and not its updates."""
        learner, sampled = module_of(result), result.get("env_runners", {})
        size = float(learner.get("module_train_batch_size_mean", 0))
        if size > 0:  # NaN where there was no update since the result before
            self.updates += float(learner["num_module_steps_trained"]) / size
        return {
            "sampled": float(sampled.get("num_env_steps_sampled_lifetime", 0)),
            "trained": float(learner.get("num_module_steps_trained_lifetime", 0)),
            "updates": self.updates,
        }


def module_of(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The learner's metrics of the only module."""
    found: Mapping[str, Any] = result.get("learners", {}).get("default_policy", {})
    return found


def train(algorithm: str, warm_up: float, seconds: float, runners: int = 1, **setting: Any) -> None:
    """Train CartPole, measured."""
    window, counters = Window(warm_up, seconds), Counters()
    torch.set_num_threads(1)
    ray.init(num_cpus=CORES, object_store_memory=STORE_BYTES, include_dashboard=False, log_to_driver=False)
    made = dqn(runners) if algorithm == "DQN" else impala(algorithm, runners, **setting)
    trained = made.environment("CartPole-v1").reporting(min_time_s_per_iteration=1).build_algo()
    over = False
    while not over:
        result = trained.train()
        lag = float(module_of(result).get("diff_num_grad_updates_vs_sampler_policy", math.nan))
        window.note({} if math.isnan(lag) else {"lag": lag})
        over = window.look(**counters.after(result))
    trained.stop()
    ray.shutdown()
    window.tell()


if __name__ == "__main__":
    train(**json.loads(sys.argv[1]))
