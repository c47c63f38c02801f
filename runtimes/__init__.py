"""Runtimes: tracing a ``model_fn`` (``tracing``), and executors for what was traced (``tensorflow``, ``litert``)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..policies.policy import Policy as Policy

__all__ = ["Policy"]


def __getattr__(name: str) -> Any:
    if name == "Policy":  # where it was before there was a room of policies
        from ..policies.policy import Policy

        return Policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
