"""``Environment``, as programs import it from ``tensorforce.environments``."""

from .environment import Environment

__all__ = ["Environment"]
