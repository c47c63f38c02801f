"""Agents by RLgraph's class names."""

from __future__ import annotations

from .agent import Agent
from .impala_agent import IMPALAAgent, SingleIMPALAAgent
from .on_policy_agents import ActorCriticAgent, PPOAgent
from .q_agents import ApexAgent, DQNAgent
from .random_agent import RandomAgent
from .soft_core import SACAgent

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
