"""Ends a run on NaN or infinity."""

from __future__ import annotations

import math

from ..errors import NonFiniteError
from ..facts import Session, UpdateFacts
from .hook import Hook


class NaNGuard(Hook):
    """Raises when an update yields a loss or a metric that is NaN or infinite.

    Existing checkpoints stay valid: after an error the session writes none.
    """

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """NonFiniteError for the first of loss and metrics that is not finite: name, value, counters."""
        if math.isfinite(sum(facts.metrics.values(), facts.loss)):
            return  # a sum is finite only if all terms are
        self._check(session, "the loss", facts.loss)
        for name, value in facts.metrics.items():
            self._check(session, f"the metric {name!r}", value)

    @staticmethod
    def _check(session: Session, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise NonFiniteError(
                f"{name} is {value} at global_step {session.global_step}, global_timestep {session.global_timestep}"
            )
