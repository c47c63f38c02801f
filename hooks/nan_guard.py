"""Ends a run on NaN or infinity."""

from __future__ import annotations

import math

from ..core.errors import NonFiniteError
from .events import Session, UpdateFacts
from .hook import Hook


class NaNGuard(Hook):
    """Raises when an update yields a loss or a metric that is NaN or infinite.

    Existing checkpoints stay valid: after an error the session writes none.
    """

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """NonFiniteError if the loss or a metric is not finite: names and values of all that are not, and counters."""
        if math.isfinite(sum(facts.metrics.values(), facts.loss)):
            return  # a sum is finite only if all terms are
        values = {"the loss": facts.loss, **{f"the metric {name!r}": value for name, value in facts.metrics.items()}}
        found = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        if found:
            raise NonFiniteError(
                f"{', '.join(found)} at global_step {session.global_step}, global_timestep {session.global_timestep}"
            )
