"""Runtimes: a ``model_fn`` is traced (``tracing``), and an executor runs what was traced (``executors``).

What was exported is acted with by :class:`~axonrl.runtimes.actor.Policy`, which needs no TensorFlow. It is imported
when it is first used, so that importing this room costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .actor import Policy as Policy

__all__ = ["Policy"]


def __getattr__(name: str) -> Any:
    if name == "Policy":
        from .actor import Policy

        return Policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
