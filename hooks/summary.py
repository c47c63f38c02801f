"""TensorBoard events."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..checks import count
from ..contracts import State
from ..errors import ArgumentError
from ..facts import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session, TimestepFacts, UpdateFacts
from .hook import Hook, by_the_clock
from .measures import Clock, Meter, known, tagged

FLUSH_SECS = 10
"""Maximum seconds until an event is on disk."""
QUEUE_SIZE = 100
"""Events passed to the writer's thread at once: waking it takes as long as several timesteps."""


class SummaryHook(Hook):
    """Writes TensorBoard events to ``<model_dir>/events``, one file per session.

    ======================  ===================  =====================================================
    tags                    axis                 when
    ======================  ===================  =====================================================
    ``update/...``          ``global_step``      every ``every_steps`` updates: loss and metrics (the
                                                 learning rate and gradient norms are metrics)
    ``rate/...``            ``global_step``      with ``update/...``: see :class:`~.measures.Rates`
    ``weights/...``         ``global_step``      every ``weights_every_steps`` updates: the Euclidean
                                                 norm of each variable
    ``histogram/...``       ``global_step``      with ``weights/...``, if ``weights_histograms``: how the
                                                 values of each variable are distributed
    ``episode/...``         ``global_timestep``  every episode: return, length, exploration
    ``evaluation/...``      ``global_timestep``  every evaluation: its results
    ======================  ===================  =====================================================

    ``update``, ``episode`` and ``evaluation`` include the two other counters. A resumed session writes a new file;
    events that a killed session wrote after its last checkpoint remain, and are written again. Events before a
    checkpoint are on disk before the checkpoint.

    Args:
        every_steps: updates between two summaries of updates.
        weights_every_steps: updates between two summaries of weights; None for never.
        weights_histograms: also write histograms of weights: 30 bins from the smallest to the largest finite value.
        clock: returns seconds; for tests.
    """

    def __init__(
        self,
        every_steps: int = 100,
        weights_every_steps: int | None = 1000,
        *,
        weights_histograms: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self._every = count("SummaryHook(every_steps)", every_steps)
        self._weights_every = (
            None if weights_every_steps is None else count("SummaryHook(weights_every_steps)", weights_every_steps)
        )
        if not isinstance(weights_histograms, bool):
            raise ArgumentError(
                f"SummaryHook(weights_histograms) must be true or false, got {weights_histograms!r}",
                "SummaryHook(weights_histograms)",
                weights_histograms,
            )
        if weights_histograms and weights_every_steps is None:
            message = "SummaryHook(weights_histograms) needs weights_every_steps, got None"
            raise ArgumentError(message, "SummaryHook(weights_every_steps)", None)
        self._histograms = weights_histograms
        self._clock = clock
        self._meter = Meter(clock)
        self._writer: Any = None
        self._waiting: list[tuple[float, int, Mapping[str, Any]]] = []
        """Wall time, step and values of events: numbers, and arrays for histograms."""
        self._hand_over_at = math.inf

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Open a new events file."""
        self._open(session)
        self._meter.start(session)

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Write loss, metrics, rates and the norms of weights, each when due."""
        step = session.global_step
        if step % self._every == 0:
            counters = {"global_timestep": session.global_timestep, "global_episode": session.global_episode}
            values = tagged("update", {"loss": facts.loss, **facts.metrics, **counters})
            values.update(tagged("rate", known(dataclasses.asdict(self._meter.read(session)))))
            self._write(step, values)
        if self._weights_every is not None and step % self._weights_every == 0:
            self._write_weights(step, session.weights())

    @by_the_clock
    def after_timestep(self, session: Session, facts: TimestepFacts) -> None:
        """Hand over events that are due, also without updates and episodes."""
        if self._clock() >= self._hand_over_at:
            self._hand_over()

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Write the episode."""
        values = {
            "return": facts.episode_return,
            "length": facts.length,
            **known({"exploration": facts.exploration}),
            "global_step": session.global_step,
            "global_episode": session.global_episode,
        }
        self._write(session.global_timestep, tagged("episode", values))

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Write the results; also those of an evaluation in the ``end`` of a later hook."""
        counters = {"global_step": session.global_step, "global_episode": session.global_episode}
        ended = self._writer is None
        if ended:
            self._open(session)
        self._write(session.global_timestep, tagged("evaluation", {**facts.results, **counters}))
        if ended:
            self._close()

    def end(self, session: Session, facts: EndFacts) -> None:
        """Write waiting events and close the file."""
        self._close()

    def state_dict(self) -> State:
        """Empty; flushes events before the checkpoint, since a resumed session will not write them again."""
        if self._writer is not None:
            self._hand_over()
            self._writer.flush()
        return {}

    def load_state_dict(self, state: State) -> None:
        """Nothing to load."""

    def _open(self, session: Session) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        directory = session.model_dir / "events"
        directory.mkdir(parents=True, exist_ok=True)
        self._writer = EventFileWriter(str(directory), QUEUE_SIZE, FLUSH_SECS / 2)

    def _close(self) -> None:
        if self._writer is not None:
            try:
                self._hand_over()
            finally:
                writer, self._writer = self._writer, None
                writer.close()

    def _write_weights(self, step: int, weights: Mapping[str, Any]) -> None:
        arrays = {name: np.asarray(value) for name, value in weights.items()}
        floats = {name: array for name, array in arrays.items() if np.issubdtype(array.dtype, np.floating)}
        self._write(step, tagged("weights", {name: _norm(array) for name, array in floats.items()}))
        if self._histograms:
            self._write(step, tagged("histogram", floats))
            self._hand_over()  # arrays may change

    def _write(self, step: int, values: Mapping[str, Any]) -> None:
        """Queue one event with all values."""
        if not self._waiting:
            self._hand_over_at = self._clock() + FLUSH_SECS / 2  # the writer takes the other half
        self._waiting.append((time.time(), step, values))
        if len(self._waiting) >= QUEUE_SIZE:
            self._hand_over()

    def _hand_over(self) -> None:
        """Pass queued events to the writer's thread."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        waiting, self._waiting, self._hand_over_at = self._waiting, [], math.inf
        for wall_time, step, values in waiting:
            summary = Summary()
            for tag, value in values.items():
                if isinstance(value, np.ndarray):
                    summary.MergeFrom(_histogram(tag, value))
                else:
                    summary.value.add(tag=tag, simple_value=value)
            self._writer.add_event(Event(wall_time=wall_time, step=step, summary=summary))


def _norm(array: np.ndarray[Any, Any]) -> float:
    return float(np.linalg.norm(array.astype(np.float64, copy=False).ravel()))


def _histogram(tag: str, value: np.ndarray[Any, Any]) -> Any:
    from tensorboard.plugins.histogram.summary_v2 import histogram_pb

    return histogram_pb(tag, value[np.isfinite(value)])
