"""Gymnasium single and vector environments behind one batched stepping interface; spaces; wrappers by name; MinAtar."""

from . import spaces as spaces
from .batched import BatchedEnvironment, Step
from .diagnosis import Diagnosis, Finding, check
from .episodes import read_episodes, write_episodes
from .ids import make, open_environment, similar
from .several_agents import from_pettingzoo
from .wrapping import WrapperError

__all__ = [
    "BatchedEnvironment",
    "Diagnosis",
    "Finding",
    "Step",
    "WrapperError",
    "check",
    "from_pettingzoo",
    "make",
    "open_environment",
    "read_episodes",
    "similar",
    "spaces",
    "write_episodes",
]
