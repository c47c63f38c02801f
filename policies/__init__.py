"""Policies: what runs without TensorFlow. ``Policy`` acts; ``Learner`` also learns.

The first loads what ``Agent.export`` wrote, the other what ``Agent.compile`` wrote. The other modules are what these
and the executors of ``runtimes/`` have in common. Nothing is imported until it is used, so that importing this room
costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .learner import Learner as Learner
    from .policy import Policy as Policy
    from .seeds import add_seeds as add_seeds

__all__ = ["Learner", "Policy", "add_seeds"]
_MODULES = {"Learner": "learner", "Policy": "policy", "add_seeds": "seeds"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
