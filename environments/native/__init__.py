"""Gymnasium's classic control environments as arrays: N environments stepped together, with bit-identical results."""

from .names import IDS, check_native, make_native
from .vector import NativeVectorEnv

__all__ = ["IDS", "NativeVectorEnv", "check_native", "make_native"]
