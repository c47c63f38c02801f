"""Agents by RLgraph's class names."""

from __future__ import annotations

from .actor_critic_agent import ActorCriticAgent
from .agent import Agent
from .apex_agent import ApexAgent
from .dqn_agent import DQNAgent
from .impala_agents import IMPALAAgent, SingleIMPALAAgent
from .ppo_agent import PPOAgent
from .random_agent import RandomAgent
from .sac_agent import SACAgent

__all__ = [
    "ActorCriticAgent",
    "Agent",
    "ApexAgent",
    "DQNAgent",
    "IMPALAAgent",
    "PPOAgent",
    "RandomAgent",
    "SACAgent",
    "SingleIMPALAAgent",
]
