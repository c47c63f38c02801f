"""TensorBoard events."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..checks import count
from ..contracts import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session, State, UpdateFacts
from .hook import Hook
from .measures import Clock, Meter

FLUSH_SECS = 10
"""Seconds after which what was written is on disk, at the latest."""
QUEUE_SIZE = 100
"""Events that may wait for the writer's thread before the run waits for it."""


class SummaryHook(Hook):
    """Writes TensorBoard events to ``<model_dir>/events``, one file per session.

    The horizontal axis is the counter that a value follows:

    ======================  ===================  =====================================================
    tags                    axis                 when
    ======================  ===================  =====================================================
    ``update/...``          ``global_step``      every ``every_steps`` updates: loss and metrics (the
                                                 learning rate and gradient norms are metrics)
    ``rate/...``            ``global_step``      with ``update/...``: see :class:`~.measures.Rates`
    ``weights/...``         ``global_step``      every ``weights_every_steps`` updates: the Euclidean
                                                 norm of each variable
    ``episode/...``         ``global_timestep``  every episode: return, length, exploration
    ``evaluation/...``      ``global_timestep``  every evaluation: its results
    ======================  ===================  =====================================================

    ``update``, ``episode`` and ``evaluation`` each hold the two other counters too. A resumed session goes on in a
    new file; what a killed one wrote after its last checkpoint stays, and is written again. Whatever was written
    before a checkpoint is on disk before the checkpoint is.

    Args:
        every_steps: updates between two summaries of updates.
        weights_every_steps: updates between two summaries of weights; None for never.
        clock: seconds, for the rates; injected by tests.

    Raises:
        ValueError: a value is not an integer of at least 1.
    """

    def __init__(
        self, every_steps: int = 100, weights_every_steps: int | None = 1000, *, clock: Clock = time.monotonic
    ) -> None:
        self._every = count("SummaryHook(every_steps)", every_steps)
        self._weights_every = (
            None if weights_every_steps is None else count("SummaryHook(weights_every_steps)", weights_every_steps)
        )
        self._meter = Meter(clock)
        self._writer: Any = None

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Open a new events file."""
        self._open(session)
        self._meter.start(session)

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Write the loss, the metrics, the rates and the norms of the weights, each when it is due."""
        step = session.global_step
        if step % self._every == 0:
            counters = {"global_timestep": session.global_timestep, "global_episode": session.global_episode}
            values = _tagged("update", {"loss": facts.loss, **facts.metrics, **counters})
            values.update(_tagged("rate", _known(dataclasses.asdict(self._meter.read(session)))))
            self._write(step, values)
        if self._weights_every is not None and step % self._weights_every == 0:
            self._write(step, _tagged("weights", _norms(session.weights())))

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Write the episode."""
        values = {
            "return": facts.episode_return,
            "length": facts.length,
            **_known({"exploration": facts.exploration}),
            "global_step": session.global_step,
            "global_episode": session.global_episode,
        }
        self._write(session.global_timestep, _tagged("episode", values))

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Write the results; also those of an evaluation that a later hook makes in its ``end``."""
        counters = {"global_step": session.global_step, "global_episode": session.global_episode}
        ended = self._writer is None
        if ended:
            self._open(session)
        self._write(session.global_timestep, _tagged("evaluation", {**facts.results, **counters}))
        if ended:
            self._close()

    def end(self, session: Session, facts: EndFacts) -> None:
        """Write what is still waiting, and close the file."""
        self._close()

    def state_dict(self) -> State:
        """Nothing to save; but what was written so far must outlive a crash, for it will not be written again."""
        if self._writer is not None:
            self._writer.flush()
        return {}

    def load_state_dict(self, state: State) -> None:
        """Nothing to load."""

    def _open(self, session: Session) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        directory = session.model_dir / "events"
        directory.mkdir(parents=True, exist_ok=True)
        self._writer = EventFileWriter(str(directory), QUEUE_SIZE, FLUSH_SECS)

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        """Queue one event with all values."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))


def _tagged(group: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{group}/{name}": value for name, value in values.items()}


def _known(values: Mapping[str, float]) -> dict[str, float]:
    """Without NaN, where that means unknown: no exploration, no time passed. A loss that is NaN is written."""
    return {name: value for name, value in values.items() if not math.isnan(value)}


def _norms(weights: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, float]:
    return {
        name: float(np.linalg.norm(value.astype(np.float64, copy=False).ravel()))
        for name, value in weights.items()
        if np.issubdtype(value.dtype, np.floating)
    }
