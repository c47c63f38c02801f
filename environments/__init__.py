"""Gymnasium single and vector environments behind one batched stepping interface; spaces; MinAtar."""

from . import spaces as spaces
from .batched import BatchedEnvironment, Step
from .making import make, open_environment, similar

__all__ = [
    "BatchedEnvironment",
    "Step",
    "make",
    "open_environment",
    "similar",
    "spaces",
]
