"""Policies: what acts without TensorFlow. ``Policy`` loads what ``Agent.export`` wrote.

The other modules are what :class:`Policy` and the executors of ``runtimes/`` have in common. Nothing is imported until
it is used, so that importing this room costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .policy import Policy as Policy

__all__ = ["Policy"]


def __getattr__(name: str) -> Any:
    if name == "Policy":
        from .policy import Policy

        return Policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
