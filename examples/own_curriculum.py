"""A curriculum: a corridor that grows when the walker reaches its end.

The goal is 30 steps away, too far to be found by chance. `set_difficulty` of the
environment moves it; a hook calls that when the mean return is high enough.

    python examples/own_curriculum.py --timesteps 20000
"""

import argparse

import gymnasium
import numpy as np

from axonrl import Agent, RunConfig
from axonrl.hooks import CurriculumHook
from axonrl.memories import ReplayMemory
from axonrl.models import dqn

FARTHEST = 30


class Corridor(gymnasium.Env):
    """Reach the goal within three times as many timesteps as it is away."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)  # back, forth

    def __init__(self):
        self.set_difficulty(FARTHEST)

    def set_difficulty(self, level):
        self.goal = level

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.timestep = 0
        return self.observation(), {}

    def step(self, action):
        self.place = max(self.place + 2 * int(action) - 1, 0)
        self.timestep += 1
        there, late = self.place == self.goal, self.timestep == 3 * self.goal
        return self.observation(), float(there), there, late and not there, {}

    def observation(self):
        return np.array([(self.goal - self.place) / FARTHEST], np.float32)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=20_000)
    arguments = parser.parse_args()
    curriculum = CurriculumHook([3, 6, 12, FARTHEST], at_return=0.9, episodes=20)
    for name, hooks in (("with", curriculum), ("without", None)):
        memory = ReplayMemory(10_000, batch_size=64)
        agent = Agent(dqn.model_fn, memory, config=RunConfig(seed=0))
        limits = {"timesteps": arguments.timesteps, "update_frequency": 2}
        agent.train(Corridor(), first_update=200, hooks=hooks, **limits)
        reached = agent.evaluate(Corridor(), episodes=1)["episode_return_mean"]
        print(f"{name} a curriculum: {reached:.1f}")
