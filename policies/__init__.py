"""Policies run without TensorFlow: ``Policy`` acts; ``Learner`` also learns.

``Policy`` loads exports of ``Agent.export``, ``Learner`` programs of ``Agent.compile``. The other modules are shared
with the executors of ``runtimes/``. Imports are lazy, so that importing this package costs nothing.
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
