"""``Environment``, as programs import it from ``tensorforce.environments``."""

from . import opening as opening  # Environment.create calls it
from .environment import Environment

__all__ = ["Environment"]
