"""Spaces, as programs import them from ``rlgraph.spaces``, and the reader of their specifications."""

from .boxes import BoolBox, FloatBox, IntBox
from .containers import Dict, Tuple
from .space import Box, Space, stacked
from .space_specs import space_of

__all__ = ["BoolBox", "Box", "Dict", "FloatBox", "IntBox", "Space", "Tuple", "space_of", "stacked"]
