"""Errors that say in which episode they happened, and numbers that must not be saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from ..contracts import Array
from ..errors import BrokenEnvironmentError, NonFiniteError

EnvironmentFailure: TypeAlias = BrokenEnvironmentError | NonFiniteError
FAILURES: Final = (BrokenEnvironmentError, NonFiniteError)
"""What a batched environment raises."""


def located(
    error: EnvironmentFailure, seeds: Sequence[int], episodes: Sequence[int] | Array, lengths: Array, when: str
) -> EnvironmentFailure:
    """The same error with environment, seed, episode and timestep; those of all environments if it names none.

    Args:
        error: what the environment raised.
        seeds: [N], of the running episodes.
        episodes: [N], their indices.
        lengths: [N], timesteps of each so far.
        when: how far the run is, in words.
    """
    rows = range(len(seeds)) if error.environment is None else [error.environment]
    where = "; ".join(
        f"environment {i}: seed {seeds[i]}, episode {int(episodes[i])}, timestep {int(lengths[i])} of it" for i in rows
    )
    return type(error)(f"{error} ({where}; {when})", error.environment)


def refuse_non_finite(weights: Mapping[str, Array], where: str) -> None:
    """Raise ``NonFiniteError`` if a weight is NaN or infinite; names the first."""
    for name, value in weights.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise NonFiniteError(f"the weight {name} is NaN or infinite {where}")


def refuse_unchanged(before: Mapping[str, Array], after: Mapping[str, Array]) -> None:
    """Raise ``ValueError`` if PREDICT has variables and the first update left all of them as they were."""
    if before and all(np.array_equal(value, after[name], equal_nan=True) for name, value in before.items()):
        raise ValueError(
            "the first update changed none of PREDICT's variables: what acts is not what learns. Was the target"
            " network built before the online one, or is the learning rate zero?"
        )
