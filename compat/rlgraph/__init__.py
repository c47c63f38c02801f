"""RLgraph 0.1's interface: programs that were written for it run with another import line.

Names are imported when they are first used; none of them loads TensorFlow or Ray before it is needed.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agents import ActorCriticAgent as ActorCriticAgent
    from .agents import Agent as Agent
    from .agents import ApexAgent as ApexAgent
    from .agents import DQNAgent as DQNAgent
    from .agents import IMPALAAgent as IMPALAAgent
    from .agents import PPOAgent as PPOAgent
    from .agents import RandomAgent as RandomAgent
    from .agents import SACAgent as SACAgent
    from .agents import SingleIMPALAAgent as SingleIMPALAAgent
    from .environments import Environment as Environment
    from .environments import GridWorld as GridWorld
    from .environments import OpenAIGymEnv as OpenAIGymEnv
    from .environments import RandomEnv as RandomEnv
    from .execution import SingleThreadedWorker as SingleThreadedWorker
    from .spaces import BoolBox as BoolBox
    from .spaces import FloatBox as FloatBox
    from .spaces import IntBox as IntBox
    from .spaces import Space as Space
    from .utils.rlgraph_errors import RLGraphError as RLGraphError
    from .utils.rlgraph_errors import RLGraphWarning as RLGraphWarning

_EXPORTS = {
    "ActorCriticAgent": "agents",
    "Agent": "agents",
    "ApexAgent": "agents",
    "DQNAgent": "agents",
    "IMPALAAgent": "agents",
    "PPOAgent": "agents",
    "RandomAgent": "agents",
    "SACAgent": "agents",
    "SingleIMPALAAgent": "agents",
    "Environment": "environments",
    "GridWorld": "environments",
    "OpenAIGymEnv": "environments",
    "RandomEnv": "environments",
    "SingleThreadedWorker": "execution",
    "BoolBox": "spaces",
    "FloatBox": "spaces",
    "IntBox": "spaces",
    "Space": "spaces",
    "RLGraphError": "utils.rlgraph_errors",
    "RLGraphWarning": "utils.rlgraph_errors",
}

__all__ = [
    "ActorCriticAgent",
    "Agent",
    "ApexAgent",
    "BoolBox",
    "DQNAgent",
    "Environment",
    "FloatBox",
    "GridWorld",
    "IMPALAAgent",
    "IntBox",
    "OpenAIGymEnv",
    "PPOAgent",
    "RLGraphError",
    "RLGraphWarning",
    "RandomAgent",
    "RandomEnv",
    "SACAgent",
    "SingleIMPALAAgent",
    "SingleThreadedWorker",
    "Space",
    "get_backend",
    "get_distributed_backend",
]


def get_backend() -> str:
    """The name of RLgraph's backend that this is like."""
    return "tf"


def get_distributed_backend() -> str:
    """The name of RLgraph's distributed backend that this is like."""
    return "ray"


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
