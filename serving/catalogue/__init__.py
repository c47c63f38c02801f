"""The models that a service hosts, and the meaning of their hyperparameters."""

from .configurations import FRESHNESS, model_descriptions, recipe
from .hosted import MODELS, NOT_HOSTED
from .recipes import Recipe

__all__ = ["FRESHNESS", "MODELS", "NOT_HOSTED", "Recipe", "model_descriptions", "recipe"]
