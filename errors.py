"""Errors that axonrl raises beside Python's own: what programs catch, and what their own parts raise."""

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
