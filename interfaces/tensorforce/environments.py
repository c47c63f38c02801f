"""``Environment``, as programs import it from ``tensorforce.environments``."""

from . import environment_opening as environment_opening  # Environment.create calls it
from .environment import Environment

__all__ = ["Environment"]
