"""Agents by RLgraph's class names."""

from __future__ import annotations

from .agent import Agent
from .q_agents import ApexAgent, DQNAgent
from .random_agent import RandomAgent
from .soft_core import SACAgent

__all__ = ["Agent", "ApexAgent", "DQNAgent", "RandomAgent", "SACAgent"]
