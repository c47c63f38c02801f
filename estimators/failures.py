"""Errors with the episode in which they happened, and checks for numbers that must not be saved."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from ..core.errors import BrokenEnvironmentError, NonFiniteError
from ..core.protocols import Array

EnvironmentFailure: TypeAlias = BrokenEnvironmentError | NonFiniteError
FAILURES: Final = (BrokenEnvironmentError, NonFiniteError)
"""Errors of a batched environment."""
logger = logging.getLogger("axonrl")


def located(
    error: EnvironmentFailure, seeds: Sequence[int], episodes: Sequence[int] | Array, lengths: Array, when: str
) -> EnvironmentFailure:
    """Return the error with environment, seed, episode and timestep; lists all environments if it names none.

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


def refuse_non_finite(weights: Mapping[str, Array], where: str) -> None:
    """Raise ``NonFiniteError`` if a weight is NaN or infinite; names the first one."""
    for name, value in weights.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise NonFiniteError(f"the weight {name} is NaN or infinite {where}")


def warn_unchanged(before: Mapping[str, Array], after: Mapping[str, Array], updates: int) -> None:
    """Warn if PREDICT has variables and no update has changed any of them."""
    if before and all(np.array_equal(value, after[name], equal_nan=True) for name, value in before.items()):
        logger.warning(
            "%s changed none of PREDICT's variables, so the policy does not learn. Was the target network built before"
            " the online one, is the learning rate zero, or are all rewards zero?",
            "the first update" if updates == 1 else f"the first {updates} updates",
        )
