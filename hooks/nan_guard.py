"""Ends a run on NaN or infinity."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..core.errors import NonFiniteError
from .events import Session, UpdateFacts
from .hook import Hook


class NaNGuard(Hook):
    """Raises if a loss or a metric of an update is NaN or infinite.

    Existing checkpoints stay valid: after an error the session writes no new ones.
    """

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Raise NonFiniteError, with names and values of all such numbers, and the counters."""
        check_finite(facts, lambda: f"at global_step {session.global_step}, global_timestep {session.global_timestep}")


def check_finite(facts: UpdateFacts, when: Callable[[], str]) -> None:
    """Raise NonFiniteError if the loss or a metric is NaN or infinite; names all such numbers, and when it was."""
    if math.isfinite(sum(facts.metrics.values(), facts.loss)):
        return  # a sum is finite only if all terms are
    values = {"the loss": facts.loss, **{f"the metric {name!r}": value for name, value in facts.metrics.items()}}
    found = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
    if found:
        raise NonFiniteError(f"{', '.join(found)} {when()}")
