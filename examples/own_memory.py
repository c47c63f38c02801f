"""A memory of your own: every batch has the newest transition.

`Memory` stores, counts, saves and resumes; a subclass says what a batch is. With a
large memory and a uniform sampler the newest transition may wait for long.

    python examples/own_memory.py --timesteps 20000
"""

import argparse

import numpy as np

from axonrl import Agent, RunConfig
from axonrl.memories import Memory, ReplayMemory
from axonrl.models import dqn


class CombinedReplay(Memory):
    """Combined experience replay (Zhang & Sutton 2017)."""

    def sample(self):
        newest = len(self) - 1
        # self.rng alone, so that the run resumes exactly
        others = self.rng.integers(len(self), size=self.batch_size - 1)
        return self.gather(np.append(newest, others))


def trained(memory, timesteps):
    """The mean return of 20 greedy episodes after a short training."""
    agent = Agent(dqn.model_fn, memory, config=RunConfig(seed=0))
    agent.train(
        "CartPole-v1", first_update=500, update_frequency=2, timesteps=timesteps
    )
    return agent.evaluate("CartPole-v1", episodes=20)["episode_return_mean"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=20_000)
    arguments = parser.parse_args()
    # One seed shows that it works, not which is better: see many_seeds.py.
    for kind in (ReplayMemory, CombinedReplay):
        found = trained(kind(50_000, batch_size=32), arguments.timesteps)
        print(f"{kind.__name__}: {found:.1f}")
