"""The spaces of ``rlgraph.spaces``, and the reader of their specifications."""

from .bool_box import BoolBox
from .box_space import BoxSpace
from .containers import Dict, Tuple
from .float_box import FloatBox
from .int_box import IntBox
from .space import Space, stacked
from .space_specs import space_of

__all__ = ["BoolBox", "BoxSpace", "Dict", "FloatBox", "IntBox", "Space", "Tuple", "space_of", "stacked"]
