"""Errors that axonrl raises besides Python's own, for programs to catch and for their own components to raise."""

from .core.errors import (
    ArgumentError,
    BrokenEnvironmentError,
    CheckpointError,
    ClusterError,
    MissingKeyError,
    NonFiniteError,
    NotCompilableError,
)

__all__ = [
    "ArgumentError",
    "BrokenEnvironmentError",
    "CheckpointError",
    "ClusterError",
    "MissingKeyError",
    "NonFiniteError",
    "NotCompilableError",
]
