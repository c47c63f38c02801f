"""Gymnasium single and vector environments behind one batched stepping interface; spaces; wrappers by name; MinAtar."""

from . import spaces as spaces
from .batched import BatchedEnvironment, Step
from .making import make, open_environment, similar
from .wrapping import WrapperError

__all__ = [
    "BatchedEnvironment",
    "Step",
    "WrapperError",
    "make",
    "open_environment",
    "similar",
    "spaces",
]
