"""Gymnasium's classic control environments as arrays: N environments stepped together, equal to theirs bit for bit."""

from .names import IDS, check_native, make_native
from .vector import NativeVectorEnv

__all__ = ["IDS", "NativeVectorEnv", "check_native", "make_native"]
