"""A hook of your own: a table of how far the cart was from the middle.

A hook is an object with methods named after events. What it remembers goes into
every checkpoint, so a run that is stopped with Ctrl-C and started again, by the
same command, continues as if nothing had happened.

    python examples/own_hook.py --timesteps 10000
"""

import argparse

from axonrl import Agent, RunConfig
from axonrl.hooks import Hook
from axonrl.memories import ReplayMemory
from axonrl.models import dqn


class Wandering(Hook):
    """Prints the largest distance of the cart, every few episodes.

    Args:
        every: episodes.
        limit: stops the run where a block of episodes stayed within it.
    """

    def __init__(self, every, limit):
        self.every, self.limit = every, limit
        self.farthest = 0.0

    def begin(self, session, facts):
        print("going on" if facts.resumed else "starting", "in", session.model_dir)

    def after_timestep(self, session, facts):
        """Once per timestep, so keep it cheap; arrays: a row per environment."""
        distance = abs(float(facts.next_observation[0, 0]))
        self.farthest = max(self.farthest, distance)

    def after_episode(self, session, facts):
        if session.global_episode % self.every == 0:
            print(f"{session.global_timestep:7,} timesteps: {self.farthest:.2f} m")
            if self.farthest < self.limit and session.global_step > 0:
                session.request_stop(f"the cart stayed within {self.limit} m")
            self.farthest = 0.0

    def state_dict(self):
        return {"farthest": self.farthest}

    def load_state_dict(self, state):
        self.farthest = float(state["farthest"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timesteps", type=int, default=10_000, help="in all")
    arguments = parser.parse_args()
    memory, config = ReplayMemory(10_000, batch_size=64), RunConfig(seed=0)
    agent = Agent(dqn.model_fn, memory, "runs/own_hook", config)
    limits = {"first_update": 500, "max_timesteps": arguments.timesteps}
    agent.train("CartPole-v1", hooks=Wandering(every=10, limit=0.1), **limits)
