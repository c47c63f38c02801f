"""``TensorforceError``, as programs import it from ``tensorforce.exception``."""

from .spaces.errors import TensorforceError

__all__ = ["TensorforceError"]
