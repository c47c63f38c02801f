"""``TensorforceError`` of ``tensorforce.exception``."""

from .spaces.errors import TensorforceError

__all__ = ["TensorforceError"]
