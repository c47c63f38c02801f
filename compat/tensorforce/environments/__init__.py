"""``Environment``, as programs import it from ``tensorforce.environments``."""

from . import environment_specs as environment_specs  # Environment.create calls it
from .environment import Environment

__all__ = ["Environment"]
