"""A program of a user, for type checkers alone (``make types``): what is right has its types, what is wrong is found.

Each line that is wrong names the rules that must find it; a rule that finds nothing is an error itself.
"""

from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.memories import ReplayMemory
from axonrl.models import dqn

env: gymnasium.Env[Any, Any] = make("CartPole-v1")
copies: VectorEnv[Any, Any, Any] = make("CartPole-v1", num_envs=4)
agent = Agent(dqn.model_fn, ReplayMemory(1_000, 32), config=RunConfig(seed=1))
result: dict[str, float] = agent.train(env, timesteps=100).evaluate(copies, episodes=4)

RunConfig(sed=1)  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
ReplayMemory("1_000", 32)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
count = make("CartPole-v1").num_envs  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
