"""RLgraph 0.1's interface: its programs run with a changed import line.

Names are imported on first use; none of them loads TensorFlow or Ray before it is needed.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agents import ActorCriticAgent, Agent, ApexAgent, DQNAgent, IMPALAAgent, PPOAgent, RandomAgent, SACAgent
    from .agents import SingleIMPALAAgent as SingleIMPALAAgent
    from .environments import Environment, GridWorld, OpenAIGymEnv, RandomEnv
    from .execution import SingleThreadedWorker
    from .spaces import BoolBox, FloatBox, IntBox, Space
    from .utils.rlgraph_errors import RLGraphError, RLGraphWarning

_AGENTS = ("ActorCriticAgent", "Agent", "ApexAgent", "DQNAgent", "IMPALAAgent", "PPOAgent", "RandomAgent", "SACAgent")
_EXPORTS = {
    **dict.fromkeys((*_AGENTS, "SingleIMPALAAgent"), "agents"),
    **dict.fromkeys(("Environment", "GridWorld", "OpenAIGymEnv", "RandomEnv"), "environments"),
    "SingleThreadedWorker": "execution",
    **dict.fromkeys(("BoolBox", "FloatBox", "IntBox", "Space"), "spaces"),
    **dict.fromkeys(("RLGraphError", "RLGraphWarning"), "utils.rlgraph_errors"),
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
    """The name of RLgraph's equivalent backend."""
    return "tf"


def get_distributed_backend() -> str:
    """The name of RLgraph's equivalent distributed backend."""
    return "ray"


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
