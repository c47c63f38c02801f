"""Savings by action masks: timesteps until DQN solves a task where nine of ten actions are illegal, with and without.

``python -m axonrl.benchmarks.masks [--seeds N] [--quick]`` prints a table. Goal: a tenth of the timesteps.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, MultiBinary

from .. import Agent, RunConfig
from ..hooks import EvaluationHook
from ..memories import ReplayMemory
from ..models import dqn

LENGTH: Final = 8
CHOICES: Final = 20
BEST: Final = 1.0 - 0.1 * (LENGTH - 2)


class Doors(gymnasium.Env[Any, Any]):
    """Eight places in a row, each with its own two of twenty actions: one leads on, one back, as do the illegal ones.

    Each step costs 0.1; reaching the last place pays 1 and ends the episode.
    """

    observation_space = Dict({"action_mask": MultiBinary(CHOICES), "place": Discrete(LENGTH)})
    action_space = Discrete(CHOICES)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self.observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = self.place + 1 if action == self.doors()[1] else max(0, self.place - 1)
        self.steps += 1
        arrived = self.place == LENGTH - 1
        return self.observation(), 1.0 if arrived else -0.1, arrived, self.steps >= 100 and not arrived, {}

    def doors(self) -> tuple[int, int]:
        back = (7 * self.place + 3) % CHOICES
        return back, (back + 10 + self.place % 5) % CHOICES

    def observation(self) -> Any:
        mask = np.zeros(CHOICES, np.int8)
        if self.place < LENGTH - 1:  # the last place is terminal: nothing is legal there
            mask[list(self.doors())] = 1
        return {"action_mask": mask, "place": self.place}


class Unmasked(gymnasium.ObservationWrapper[Any, Any, Any]):
    """The same without the mask."""

    observation_space = Doors.observation_space["place"]

    def observation(self, observation: Any) -> Any:
        return observation["place"]


def timesteps_to_solve(make: Callable[[], Any], seed: int, at_most: int) -> float:
    """Timesteps until the greedy policy of DQN takes the shortest way; infinite if ``at_most`` do not suffice."""
    params = {"hidden": (32,), "learning_rate": 3e-3, "epsilon": 0.5, "target_update_period": 50}
    memory = ReplayMemory(20_000, 32, discount=0.9)
    agent = Agent(dqn.model_fn, memory, config=RunConfig(seed=seed, progress=False), params=params)
    watch = EvaluationHook(50, episodes=1, env=make(), stop_at=BEST - 1e-6)
    agent.train(make(), first_update=50, update_frequency=1, max_timesteps=at_most, hooks=[watch])
    solved = agent.evaluate(make(), episodes=1)["episode_return_mean"] > BEST - 1e-6
    return agent.global_timestep if solved else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description="Timesteps that action masks save.")
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 100 on")
    parser.add_argument("--quick", action="store_true", help="one seed, 200 timesteps: only to see that it works")
    arguments = parser.parse_args()
    seeds, at_most = (1, 200) if arguments.quick else (arguments.seeds, 20_000)
    print("| observation | timesteps, median | least | most |\n|---|---|---|---|")
    for name, make in {"with mask": Doors, "without": lambda: Unmasked(Doors())}.items():
        found = [timesteps_to_solve(make, 100 + seed, at_most) for seed in range(seeds)]
        print(f"| {name} | {statistics.median(found):,.0f} | {min(found):,.0f} | {max(found):,.0f} |")


if __name__ == "__main__":
    main()
