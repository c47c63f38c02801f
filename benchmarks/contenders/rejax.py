"""rejax with gymnax: learning, acting and the environment are one program of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import rejax

from .. import settings
from ..timing import seconds_of

_COMMON = {"gamma": settings.DISCOUNT, "skip_initial_evaluation": True}


def timesteps_per_second(make: Any, warm_up: int, timesteps: int) -> dict[str, float]:
    """Speed of one call of the compiled ``train``, which never evaluates; compiling is not timed.

    Args:
        make: an algorithm for so many timesteps.
        warm_up: timesteps before the measured ones.
        timesteps: those that are measured.
    """

    def train(count: int, **given: Any) -> Any:
        algorithm = make(total_timesteps=count, eval_freq=count).replace(eval_callback=lambda *_: ())
        program = jax.jit(algorithm.train).lower(**given).compile()
        return lambda: jax.block_until_ready(program(**given)[0])

    begun = train(warm_up, rng=jax.random.PRNGKey(0))()
    return {"": timesteps / seconds_of(train(timesteps, train_state=begun))}


def dqn(update_frequency: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of DQN; ``update_frequency`` copies take one timestep each between two updates."""

    def make(**given: Any) -> Any:
        return rejax.get_algo("dqn").create(
            env="CartPole-v1",
            agent_kwargs={"activation": "relu"},
            num_envs=update_frequency,
            buffer_size=settings.MEMORY_SIZE,
            fill_buffer=settings.FIRST_UPDATE,
            batch_size=settings.BATCH_SIZE,
            learning_rate=settings.LEARNING_RATE,
            max_grad_norm=settings.MAX_GRADIENT_NORM,
            target_update_freq=settings.TARGET_UPDATE_TIMESTEPS,
            polyak=0.0,
            ddqn=False,
            eps_start=settings.EPSILON,
            eps_end=settings.EPSILON,
            **_COMMON,
            **given,
        )

    return timesteps_per_second(make, settings.WARM_UP_TIMESTEPS, timesteps)


def ppo(env_id: str, num_envs: int, rollout: int, minibatch: int, rollouts: int) -> dict[str, float]:
    """Timesteps per second of PPO; ``rollout`` timesteps of each environment."""
    size, given_ppo = rollout * num_envs, settings.PPO

    def make(**given: Any) -> Any:
        return rejax.get_algo("ppo").create(
            env=env_id,
            agent_kwargs={"activation": "tanh", "hidden_layer_sizes": (64, 64)},
            num_envs=num_envs,
            num_steps=rollout,
            num_minibatches=size // minibatch,
            num_epochs=given_ppo["epochs"],
            learning_rate=given_ppo["learning_rate"],
            gae_lambda=given_ppo["gae_lambda"],
            clip_eps=given_ppo["clip"],
            max_grad_norm=given_ppo["max_gradient_norm"],
            ent_coef=0.0,
            **_COMMON,
            **given,
        )

    return timesteps_per_second(make, size, rollouts * size)


def sac(hidden: list[int], batch: int, timesteps: int) -> dict[str, float]:
    """Timesteps per second of SAC, one update per timestep."""

    def make(**given: Any) -> Any:
        return rejax.get_algo("sac").create(
            env="Pendulum-v1",
            agent_kwargs={"activation": "relu"},
            hidden_layer_sizes=tuple(hidden),
            num_envs=1,
            buffer_size=settings.MEMORY_SIZE,
            fill_buffer=settings.SAC_FIRST_UPDATE,
            batch_size=batch,
            learning_rate=settings.SAC["learning_rate"],
            polyak=1 - settings.SAC["target_update_rate"],
            **_COMMON,
            **given,
        )

    return timesteps_per_second(make, settings.SAC_WARM_UP, timesteps)


ALGORITHMS: dict[str, Callable[..., dict[str, float]]] = {"dqn": dqn, "ppo": ppo, "sac": sac}


def whole(algorithm: str, arguments: dict[str, Any]) -> dict[str, float]:
    """Timesteps per second of an algorithm."""
    return ALGORITHMS[algorithm](**arguments)
