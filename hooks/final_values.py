"""Values at the end of a run."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from ..core.checks import did_you_mean
from ..core.errors import ArgumentError
from ..core.protocols import State
from ..run_dir.files import write_atomically
from .events import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session, UpdateFacts
from .hook import Hook
from .measures import ROLLOUT, Scalars, evaluation_values, training_values

FILE: Final = "final_values.json"
_ARGUMENT: Final = "FinalValuesHook(names)"
_COUNTERS: Final = ("global_step", "global_timestep", "global_episode")
_log = logging.getLogger(__name__)


class FinalValuesHook(Hook):
    """Provides selected values at the end of a run, like an Estimator's FinalOpsHook.

    After the run, ``values`` and ``<model_dir>/final_values.json`` hold them by name, and the scalars are logged. Names
    are those of :class:`~axonrl.hooks.measures.Scalars` in the groups ``rollout``, ``train`` and ``eval``, such as
    ``rollout/return_mean``, ``train/loss`` and ``eval/return_mean``; ``weights/<variable>``, for the array itself; and
    the counters, ``global_step``, ``global_timestep`` and ``global_episode``. A failed run has no values.

    Example::

        final = FinalValuesHook(["train/loss", "weights/0000.online/dense/kernel"])
        agent.train(env, max_timesteps=10_000, hooks=[final])
        final.values["train/loss"]

    Args:
        names: names of the values to provide.

    Raises:
        ArgumentError: there are no names, or one is invalid.
    """

    def __init__(self, names: Iterable[str]) -> None:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ArgumentError(f"{_ARGUMENT} must be a sequence of names, got {names!r}", _ARGUMENT, names)
        self._names = tuple(names)
        if not self._names:
            raise ArgumentError(f"{_ARGUMENT} must name at least one value", _ARGUMENT, names)
        for name in self._names:
            _check_name(name)
        self.values: dict[str, Any] = {}
        """Name to number, or to array for weights; empty until the run has ended."""
        self._seen: dict[str, float] = {}
        self._scalars = Scalars(every_steps=1)
        self._ended = False

    def prepare(self, session: Session) -> None:
        """Check that the model has the named weights."""
        known = [f"weights/{name}" for name in session.weights()]
        for name in self._names:
            if name.startswith("weights/") and name not in known:
                near = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise ArgumentError(f"{_ARGUMENT}: the model has no {name!r}{near}", _ARGUMENT, name)

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Drop the values of an earlier run."""
        self.values, self._ended = {}, False

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Keep the named values."""
        self._keep(training_values(facts))

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Keep the named values."""
        self._keep(self._scalars.of_episode(facts))

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Keep the named values, also from an evaluation in the ``end`` of a later hook."""
        self._keep(evaluation_values(facts))
        if self._ended:
            self._publish(session)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Provide the values, and warn of missing ones."""
        if facts.error is not None:
            return
        self._ended = True
        self._publish(session)
        numbers = {name: value for name, value in self.values.items() if not isinstance(value, np.ndarray)}
        if numbers:
            _log.info("final values: %s", ", ".join(f"{name} {value:.6g}" for name, value in numbers.items()))
        missing = [name for name in self._names if name not in self.values]
        if missing:
            _log.warning("the run ended without a value for %s", ", ".join(missing))

    def _keep(self, values: Mapping[str, float]) -> None:
        for name in self._names:
            if name in values:
                self._seen[name] = values[name]

    def _publish(self, session: Session) -> None:
        weights = session.weights()
        found: dict[str, Any] = {
            **{name: getattr(session, name) for name in _COUNTERS},
            **{f"weights/{name}": np.asarray(value) for name, value in weights.items()},
            **self._seen,
        }
        self.values = {name: found[name] for name in self._names if name in found}
        text = json.dumps({name: _as_json(value) for name, value in self.values.items()}, indent=2)
        write_atomically(session.model_dir / FILE, f"{text}\n".encode())

    def state_dict(self) -> State:
        """The latest values, and the window of episodes."""
        return {"values": dict(self._seen), "scalars": self._scalars.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restore the saved state."""
        self._seen = {name: value for name, value in state["values"].items() if name in self._names}
        self._scalars.load_state_dict(state["scalars"])


def _check_name(name: Any) -> None:
    expected = (*_COUNTERS, *(f"rollout/{value}" for value in ROLLOUT))
    if isinstance(name, str):
        group, _, rest = name.partition("/")
        if name in expected or (group in ("train", "eval", "weights") and rest):
            return
    raise ArgumentError(
        f"{_ARGUMENT} must be {', '.join(expected)}, train/..., eval/... or weights/...;"
        f" got {name!r}{did_you_mean(name, expected)}",
        _ARGUMENT,
        name,
    )


def _as_json(value: Any) -> Any:
    """Convert to numbers and lists; numbers that JSON lacks become null."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if math.isfinite(value) else None
