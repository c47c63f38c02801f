"""``Runner``, as programs import it from ``tensorforce.execution``."""

from .runner import Runner

__all__ = ["Runner"]
