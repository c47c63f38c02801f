"""Failures of environments, with the episode in which they happened."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final, TypeAlias

from ..core.errors import BrokenEnvironmentError, NonFiniteError
from ..core.protocols import Array

EnvironmentFailure: TypeAlias = BrokenEnvironmentError | NonFiniteError
FAILURES: Final = (BrokenEnvironmentError, NonFiniteError)
"""Errors of a batched environment."""


def with_place(
    error: EnvironmentFailure, seeds: Sequence[int], episodes: Sequence[int] | Array, lengths: Array, when: str
) -> EnvironmentFailure:
    """Return the error with environment, seed, episode and timestep added; for all environments if it names none.

    Args:
        error: raised by the environment.
        seeds: [N], seeds of the running episodes.
        episodes: [N], indices of the running episodes.
        lengths: [N], their timesteps so far.
        when: progress of the run, in words.
    """
    rows = range(len(seeds)) if error.environment is None else [error.environment]
    where = "; ".join(
        f"environment {i}: seed {seeds[i]}, episode {int(episodes[i])}, timestep {int(lengths[i])}" for i in rows
    )
    return type(error)(f"{error} ({where}; {when})", error.environment)


def error_summary(error: BaseException) -> str:
    """Kind and message of the error that ended a session."""
    text = ""
    with contextlib.suppress(Exception):  # a user's exception may fail to format
        text = str(error)
    return f"{type(error).__name__}: {text}".removesuffix(": ")  # KeyboardInterrupt has no message
