"""How well and how fast agents of Tensorforce's interface learn CartPole, and what act and observe cost.

    python -m axonrl.benchmarks.tensorforce learning --seeds 100 101 102 --page docs/migrating_from_tensorforce.md
    python -m axonrl.benchmarks.tensorforce speed --page docs/migrating_from_tensorforce.md

A table replaces the one that the page has between its marks.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from .dialects import Programs, main


class Trial(NamedTuple):
    """An agent and how long it may learn."""

    timesteps: int
    arguments: dict[str, Any]


TRIALS: Final[dict[str, Trial]] = {
    "quickstart": Trial(
        200_000,
        {
            "agent": "tensorforce",
            "memory": 10_000,
            "update": {"unit": "timesteps", "batch_size": 64},
            "optimizer": {"type": "adam", "learning_rate": 1e-3},
            "policy": {"network": "auto"},
            "objective": "policy_gradient",
            "reward_estimation": {"horizon": 20, "discount": 0.99},
        },
    ),
    "ppo": Trial(100_000, {"agent": "ppo", "batch_size": 10}),
    "dqn": Trial(
        50_000,
        {
            "agent": "dqn",
            "memory": 10_000,
            "batch_size": 32,
            "update_frequency": 4,
            "learning_rate": 1e-3,
            "target_sync_frequency": 100,
            "start_updating": 500,
            "exploration": {
                "type": "decaying",
                "unit": "timesteps",
                "decay": "linear",
                "initial_value": 1.0,
                "final_value": 0.05,
                "decay_steps": 10_000,
            },
        },
    ),
    "vpg": Trial(100_000, {"agent": "vpg", "batch_size": 10, "learning_rate": 5e-3}),
    "a2c": Trial(
        100_000,
        {
            "agent": "a2c",
            "batch_size": 32,
            "learning_rate": 1e-3,
            "horizon": 15,
            "critic_optimizer": {"type": "adam", "learning_rate": 3e-3},
        },
    ),
}


def learn(name: str, seed: int, timesteps: int | None = None) -> list[float]:
    """The returns of all episodes but the last one, which was cut."""
    from .. import environments
    from ..compat.tensorforce import Runner

    trial = TRIALS[name]
    with environments.make("CartPole-v1", None) as env:
        env.reset(seed=seed)  # the interface has no seeds of environments; those that follow draw from the same one
        environment = {"environment": "gym", "level": env}
        runner = Runner(agent={**trial.arguments, "seed": seed}, environment=environment, max_episode_timesteps=500)
        runner.run(num_timesteps=timesteps or trial.timesteps, use_tqdm=False)
        runner.close()
    return [float(x) for x in runner.episode_rewards][:-1]


def of_core(timesteps: int) -> float:
    """Seconds of a timestep of ``Agent.train``: a policy gradient without a baseline, as the quickstart's is."""
    from .. import Agent, RunConfig
    from ..memories import BatchMemory
    from ..models import vpg

    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(seed=0, progress=False, save_checkpoints_secs=None)
        params = {"hidden": [64, 64], "activation": "tanh", "learning_rate": 1e-3, "baseline": "none"}
        agent = Agent(vpg.model_fn, BatchMemory(size=64, batch_size=64, discount=0.99), folder, config, params)
        agent.train("CartPole-v1", timesteps=WARM_UP, hooks=[])
        began = time.perf_counter()
        agent.train("CartPole-v1", timesteps=timesteps, hooks=[])
        return (time.perf_counter() - began) / timesteps


def quickstart(**more: Any) -> tuple[Any, Any]:
    """The quickstart's agent and its environment."""
    from ..compat.tensorforce import Agent, Environment

    environment = Environment.create(environment="gym", level="CartPole-v1")
    return Agent.create(environment=environment, seed=0, **{**TRIALS["quickstart"].arguments, **more}), environment


def program(timesteps: int) -> float:
    """Seconds of a timestep of the quickstart's program."""
    agent, environment = quickstart()

    def loop(end: int) -> None:
        while agent.timesteps < end:
            states, terminal = environment.reset(), 0
            while terminal == 0:
                actions = agent.act(states=states)
                states, terminal, reward = environment.execute(actions=actions)
                agent.observe(terminal=terminal, reward=reward)

    loop(WARM_UP)
    first, began = agent.timesteps, time.perf_counter()
    loop(first + timesteps)
    return (time.perf_counter() - began) / int(agent.timesteps - first)


def calls(timesteps: int) -> float:
    """Seconds of an act and an observe of the quickstart's agent, updates left out."""
    agent, environment = quickstart(update={"unit": "timesteps", "batch_size": 64, "frequency": "never"})
    states = environment.reset()

    def loop(count: int) -> None:
        for t in range(count):
            agent.act(states=states)
            agent.observe(terminal=t % 200 == 199, reward=1.0)

    loop(WARM_UP)
    began = time.perf_counter()
    loop(timesteps)
    return (time.perf_counter() - began) / timesteps


WARM_UP: Final = 2_000
MEASURED: Final[Mapping[str, Callable[[int], float]]] = {
    "`Agent.train`, VPG without a baseline, of the same network and batches": of_core,
    "`act` and `observe` alone, without updates": calls,
    "the quickstart's program": program,
}


PROGRAMS: Final = Programs(
    learn={name: functools.partial(learn, name) for name in TRIALS},
    timesteps={name: trial.timesteps for name, trial in TRIALS.items()},
    measured=MEASURED,
    wanted=150.0,
)


if __name__ == "__main__":
    main("tensorforce", __doc__, PROGRAMS, None)
