"""Errors that axonrl raises on purpose. All other exceptions are Python's own, or a bug."""

from __future__ import annotations


class ArgumentError(ValueError):
    """An argument is invalid. Code that needs to know which one reads the fields, never the message.

    Args:
        message: what is wrong, what was given and what is expected.
        argument: the argument's name, as in the message: ``"size"``, ``"RunConfig.seed"``.
        value: what was given.
    """

    def __init__(self, message: str, argument: str, value: object = None) -> None:
        super().__init__(message, argument, value)  # all three, so that pickling keeps them
        self.argument = argument
        self.value = value

    def __str__(self) -> str:
        return str(self.args[0])


class NotCompilableError(ValueError):
    """A model works, and ``Agent.compile`` cannot write it: it runs in TensorFlow alone. The message says why."""


class _LocatedError(Exception):
    """An error that may know the index of the environment that caused it."""

    def __init__(self, message: str, environment: int | None = None) -> None:
        super().__init__(message)
        self.environment = environment


class BrokenEnvironmentError(_LocatedError, RuntimeError):
    """An environment raised, or returned something that its spaces do not allow. The message names it."""


class NonFiniteError(_LocatedError, ArithmeticError):
    """A reward, an observation, an action, a loss or a weight is NaN or infinite."""


class ClusterError(RuntimeError):
    """A training on several processes cannot go on: actors fail, or nothing moves. The message says who waits."""


class CheckpointError(RuntimeError):
    """A run folder cannot be used: damaged, locked by another writer, or not a run folder."""
