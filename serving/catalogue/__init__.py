"""Which models a service hosts, and what their hyperparameters become."""

from .configurations import FRESHNESS, described, recipe
from .hosted import MODELS, NOT_HOSTED, OTHERS, SUPPORTED
from .recipes import Recipe

SUPPORTED_MODELS = list(SUPPORTED)
"""The original's, in the order of its documentation."""
OTHER_MODELS = list(OTHERS)

__all__ = ["FRESHNESS", "MODELS", "NOT_HOSTED", "OTHER_MODELS", "SUPPORTED_MODELS", "Recipe", "described", "recipe"]
