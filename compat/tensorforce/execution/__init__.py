"""``Runner`` of ``tensorforce.execution``."""

from .runner import Runner

__all__ = ["Runner"]
