"""RLtools: C++ that is compiled for these very settings; it steps Gymnasium's environments in Python."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any

tempfile.tempdir = sys.prefix  # below it RLtools keeps what it compiles; it asks once, when it is imported

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
import rltools  # noqa: E402

from .. import settings  # noqa: E402
from ..timing import seconds_of  # noqa: E402


def scaled(env_id: str) -> Any:
    """An environment with actions from -1 to 1, as it needs them."""
    env = gymnasium.make(env_id, disable_env_checker=True)
    return gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))


def steps(state: Any, count: int) -> None:
    for _ in range(count):
        state.step()


def sac(hidden: Sequence[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second, one update per timestep."""
    algorithm = rltools.SAC(
        partial(scaled, "Pendulum-v1"),
        enable_evaluation=False,
        interface_name=f"{hidden[0]}_{batch}",
        GAMMA=settings.DISCOUNT,
        ACTOR_BATCH_SIZE=batch,
        CRITIC_BATCH_SIZE=batch,
        ACTOR_POLYAK=1 - settings.SAC["target_update_rate"],
        CRITIC_POLYAK=1 - settings.SAC["target_update_rate"],
        N_WARMUP_STEPS=settings.SAC_FIRST_UPDATE,
        STEP_LIMIT=2 * (settings.SAC_WARM_UP + timesteps),
        REPLAY_BUFFER_CAP=settings.MEMORY_SIZE,
        ACTOR_HIDDEN_DIM=hidden[0],
        ACTOR_NUM_LAYERS=len(hidden) + 1,
        CRITIC_HIDDEN_DIM=hidden[0],
        CRITIC_NUM_LAYERS=len(hidden) + 1,
        COLLECT_EPISODE_STATS=False,
        ALPHA=1.0,
        OPTIMIZER_ALPHA=settings.SAC["learning_rate"],
    )
    state = algorithm.State(0)
    steps(state, settings.SAC_WARM_UP)
    return {"": timesteps / seconds_of(partial(steps, state, timesteps))}


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second; ``rollout`` timesteps of each environment."""
    given, size = settings.PPO, rollout * num_envs
    algorithm = rltools.PPO(
        partial(scaled, env_id),
        enable_evaluation=False,
        GAMMA=settings.DISCOUNT,
        LAMBDA=given["gae_lambda"],
        EPSILON_CLIP=given["clip"],
        INITIAL_ACTION_STD=1.0,
        ACTION_ENTROPY_COEFFICIENT=0.0,
        N_EPOCHS=given["epochs"],
        STEP_LIMIT=2 * (rollouts + 1),
        ACTOR_HIDDEN_DIM=64,
        ACTOR_NUM_LAYERS=3,
        ACTOR_ACTIVATION_FUNCTION="TANH",
        CRITIC_HIDDEN_DIM=64,
        CRITIC_NUM_LAYERS=3,
        CRITIC_ACTIVATION_FUNCTION="TANH",
        N_ENVIRONMENTS=num_envs,
        ON_POLICY_RUNNER_STEPS_PER_ENV=rollout,
        BATCH_SIZE=minibatch,
        OPTIMIZER_ALPHA=given["learning_rate"],
    )
    state = algorithm.State(0)
    steps(state, 1)
    return {"": rollouts * size / seconds_of(partial(steps, state, rollouts))}
