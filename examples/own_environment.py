"""An environment of your own: a battery that buys power when it is cheap.

Anything with Gymnasium's interface can be trained in. A registered id can be
copied: for several environments at once, for evaluations, for experiment files.

    python examples/own_environment.py --timesteps 20000
"""

import argparse

import gymnasium
import numpy as np

from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.memories import ReplayMemory
from axonrl.models import dqn


class Battery(gymnasium.Env):
    """A day of 24 hours. The price follows the sun; the battery holds four."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)  # sell a unit, wait, buy a unit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hour, self.charge = 0, 0
        self.cheapest = self.np_random.integers(9, 15)  # the hour with most sun
        return self._observation(), {}

    def step(self, action):
        charge = min(max(self.charge + int(action) - 1, 0), 4)
        reward = (self.charge - charge) * self._price()
        self.charge = charge
        self.hour += 1
        return self._observation(), reward, self.hour == 24, False, {}

    def _price(self):
        return 1.0 - np.cos(2 * np.pi * (self.hour - self.cheapest) / 24)

    def _observation(self):
        values = (self.hour / 24, self.charge / 4, self._price() - 1)
        return np.array(values, np.float32)


gymnasium.register("Battery-v0", entry_point=Battery)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=20_000)
    arguments = parser.parse_args()

    memory, config = ReplayMemory(20_000, batch_size=64), RunConfig(seed=0)
    agent = Agent(dqn.model_fn, memory, config=config)
    schedule = {"first_update": 500, "update_frequency": 4}
    env = make("Battery-v0", num_envs=4)
    agent.train(env, **schedule, timesteps=arguments.timesteps)
    found = agent.evaluate("Battery-v0", episodes=50)["episode_return_mean"]
    print(f"a day earns {found:.2f}; an idle battery, nothing")
