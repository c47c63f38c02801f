"""How well and how fast agents of Tensorforce's interface learn CartPole, and what act and observe cost.

    python -m axonrl.benchmarks.tensorforce learning --seeds 100-102 --page docs/migrating_from_tensorforce.md
    python -m axonrl.benchmarks.tensorforce speed --page docs/migrating_from_tensorforce.md

A table replaces the one below the line of the page that holds the command.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from .learning import seeds

LAST: Final = 20
"""Episodes whose mean return counts."""
WANTED: Final = 150.0


class Trial(NamedTuple):
    """An agent and how long it may learn."""

    timesteps: int
    arguments: dict[str, Any]


TRIALS: Final[dict[str, Trial]] = {
    "quickstart": Trial(
        100_000,
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
    "ppo": Trial(50_000, {"agent": "ppo", "batch_size": 10, "learning_rate": 1e-3}),
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


def learn(name: str, seed: int, timesteps: int | None = None) -> tuple[float, list[float]]:
    """The mean return of the last episodes, and the returns of all."""
    from ..interfaces.tensorforce import Runner

    trial = TRIALS[name]
    environment = {"environment": "gym", "level": "CartPole-v1"}
    runner = Runner(agent={**trial.arguments, "seed": seed}, environment=environment, max_episode_timesteps=500)
    runner.run(num_timesteps=timesteps or trial.timesteps, use_tqdm=False)
    runner.close()
    returns = [float(x) for x in runner.episode_rewards]
    return statistics.fmean(returns[-LAST - 1 : -1]), returns  # the last one was cut


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["learning"])
    parser.add_argument("--seeds", type=seeds, default=[100, 101, 102])
    parser.add_argument("--only", nargs="+", choices=list(TRIALS), default=list(TRIALS))
    parser.add_argument("--timesteps", type=int)
    parser.add_argument("--page", type=Path)
    given: Any = parser.parse_args(arguments)
    for name in given.only:
        for seed in given.seeds:
            began = time.perf_counter()
            mean, returns = learn(name, seed, given.timesteps)
            curve = [round(float(np.mean(part))) for part in np.array_split(np.array(returns), 10)]
            print(name, seed, f"{mean:.1f}", f"{time.perf_counter() - began:.0f} s", curve, flush=True)


if __name__ == "__main__":
    main()
