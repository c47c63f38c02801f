"""Tensorforce 0.5's interface: its programs run with a changed import line.

Names are imported on first use; none of them loads TensorFlow before a learning agent is created.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agents import Agent as Agent
    from .environments import Environment as Environment
    from .execution import Runner as Runner
    from .spaces.errors import TensorforceError as TensorforceError

_EXPORTS = {
    "Agent": "agents",
    "Environment": "environments",
    "Runner": "execution",
    "TensorforceError": "spaces.errors",
}

__all__ = ["Agent", "Environment", "Runner", "TensorforceError"]


def __getattr__(name: str) -> Any:
    if name in ("exception", "util"):
        return importlib.import_module(f"{__name__}.{name}")
    if name in _EXPORTS:
        return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
