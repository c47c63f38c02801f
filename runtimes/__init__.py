"""Runtimes: traces a ``model_fn`` (``tracing``), and runs it (``tensorflow``, ``litert``)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..policies.policy import Policy as Policy

__all__ = ["Policy"]


def __getattr__(name: str) -> Any:
    if name == "Policy":  # its former location
        from ..policies.policy import Policy

        return Policy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
