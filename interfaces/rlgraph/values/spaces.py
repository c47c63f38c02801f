"""All spaces, and what reads their specifications: import them from here, so that ``Space.from_spec`` works."""

from .boxes import BoolBox, FloatBox, IntBox
from .containers import Dict, Tuple
from .space import Box, Space, stacked
from .space_specs import space_of

__all__ = ["BoolBox", "Box", "Dict", "FloatBox", "IntBox", "Space", "Tuple", "space_of", "stacked"]
