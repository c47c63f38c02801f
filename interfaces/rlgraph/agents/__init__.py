"""Agents by RLgraph's class names."""

from __future__ import annotations

from .agent import Agent
from .impala_agent import IMPALAAgent, SingleIMPALAAgent
from .q_agents import ApexAgent, DQNAgent
from .random_agent import RandomAgent

__all__ = ["Agent", "ApexAgent", "DQNAgent", "IMPALAAgent", "RandomAgent", "SingleIMPALAAgent"]
