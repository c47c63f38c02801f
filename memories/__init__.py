"""Memories: store transitions and draw batches of them. NumPy only."""

from .batch import BatchMemory
from .demonstrations import DemonstrationMemory
from .hindsight import HindsightMemory
from .memory import Memory
from .recorded_episodes import fill
from .replay import ReplayMemory
from .samplers import Prioritized, Sampler, Uniform
from .sequences import SequenceMemory

__all__ = [
    "BatchMemory",
    "DemonstrationMemory",
    "HindsightMemory",
    "Memory",
    "Prioritized",
    "ReplayMemory",
    "Sampler",
    "SequenceMemory",
    "Uniform",
    "fill",
]
