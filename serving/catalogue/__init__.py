"""The models that a service hosts, and the meaning of their hyperparameters."""

from .configurations import FRESHNESS, described, recipe
from .hosted import MODELS, NOT_HOSTED, OTHERS, SUPPORTED
from .recipes import Recipe

SUPPORTED_MODELS = list(SUPPORTED)
"""The original's models, in the order of its documentation."""
OTHER_MODELS = list(OTHERS)

__all__ = ["FRESHNESS", "MODELS", "NOT_HOSTED", "OTHER_MODELS", "SUPPORTED_MODELS", "Recipe", "described", "recipe"]
