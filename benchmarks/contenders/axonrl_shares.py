"""Shares of the time of axonrl's own loop: clocks around the parts of a timestep."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

from axonrl.environments import make
from axonrl.models import ppo

from .. import settings
from ..settings import NETWORKS
from ..timing import seconds_of
from .axonrl_agent import agent_for, on_policy_agent, pendulum_agent, ppo_params

PARTS = {"environment": ("reset", "step"), "acting": ("act",), "storing": ("step", "extend"), "learning": ("learn",)}
"""Measured parts, and their methods of the environment, the stepper and the memory."""


def add_clocks(whom: Any, names: tuple[str, ...], spent: list[float]) -> None:
    """Add to ``spent`` the seconds that these methods of an object take."""

    def around(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            began = time.perf_counter()
            found = method(*given, **more)
            spent[0] += time.perf_counter() - began
            return found

        return call

    for name in names:
        if hasattr(whom, name):
            setattr(whom, name, around(getattr(whom, name)))


def measured(agent: Any, env: Any, train: Callable[[int], Any], warm_up: int, timesteps: int) -> dict[str, float]:
    """Percent of the time of a whole call of ``Agent.train``, and microseconds per timestep.

    Args:
        agent: a new one.
        env: where it trains.
        train: trains for so many timesteps.
        warm_up: timesteps before the measured ones: everything is compiled.
        timesteps: those that are measured.
    """
    train(warm_up)
    stepper = agent._trainer.state().stepper
    clocks = {name: [0.0] for name in PARTS}
    for copy in getattr(env, "envs", [env]):
        add_clocks(copy, PARTS["environment"], clocks["environment"])
    for name, whom in (("acting", stepper), ("storing", stepper.memory), ("learning", stepper)):
        add_clocks(whom, PARTS[name], clocks[name])
    seconds = seconds_of(lambda: train(timesteps))
    shares = {f"{name}, %": 100 * spent[0] / seconds for name, spent in clocks.items()}
    return {
        **shares,
        "everything else, %": 100 - sum(shares.values()),
        "a timestep, microseconds": seconds / timesteps * 1e6,
    }


def shares(algorithm: str, timesteps: int) -> dict[str, float]:
    """Shares of the time of ``dqn``, ``ppo`` or ``ppo_native`` in CartPole-v1, or ``sac`` in Pendulum-v1."""
    with tempfile.TemporaryDirectory() as folder:
        if algorithm == "dqn":
            env = settings.cartpole()
            agent = agent_for(NETWORKS["2x64"], folder, settings.BATCH_SIZE, settings.MEMORY_SIZE)
            first, warm_up = settings.FIRST_UPDATE, settings.WARM_UP_TIMESTEPS
        elif algorithm == "sac":
            env = make("Pendulum-v1")
            agent = pendulum_agent([64, 64], 64, folder)
            first, warm_up = settings.SAC_FIRST_UPDATE, settings.SAC_WARM_UP
        else:
            env = make("CartPole-v1", 8, vectorization="native" if algorithm == "ppo_native" else "sync")
            agent = on_policy_agent(ppo.model_fn, ppo_params(256), 2_048, folder)
            return measured(agent, env, lambda count: agent.train(env, timesteps=count), 2_048, timesteps)
        return measured(agent, env, lambda count: agent.train(env, first, 1, timesteps=count), warm_up, timesteps)
