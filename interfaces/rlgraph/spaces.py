"""Spaces, as programs import them from ``rlgraph.spaces``."""

from .values.spaces import BoolBox, Dict, FloatBox, IntBox, Space, Tuple

__all__ = ["BoolBox", "Dict", "FloatBox", "IntBox", "Space", "Tuple"]
