"""TensorBoard events."""

from __future__ import annotations

import collections
import contextlib
import math
import re
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from ..core.checks import count, flag
from ..core.errors import ArgumentError
from ..core.protocols import State
from ..run_dir.final import EXPERIMENT
from .event_files import EventFile
from .events import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Session, TimestepFacts, UpdateFacts, VideoFacts
from .hook import Hook, by_the_clock
from .measures import Clock, Scalars, add_prefix, evaluation_values

FOLDER: Final = "events"
FLUSH_SECS = 10
"""Maximum seconds until an event is on disk."""
QUEUE_SIZE = 100
"""Maximum number of events buffered."""


class SummaryHook(Hook):
    """Writes TensorBoard events to ``<model_dir>/events``, one file per session, over ``global_timestep``.

    If there are updates without timesteps (``Agent.learn``), the axis is the session's ``position``.

    ==============================  ========================================================================
    tags                            what and when
    ==============================  ========================================================================
    ``rollout/...``, ``train/...``  see :class:`~axonrl.hooks.measures.Scalars`
    ``eval/...``, ``time/...``      see there
    ``weights_norm/<variable>``     the Euclidean norm of each variable, every ``weights_every_steps`` updates
    ``weights/<variable>``          at the same times, if ``weights_histograms``: the distribution of its values
    ``eval/video``                  some frames of each video of a :class:`~axonrl.hooks.VideoHook`
    ``experiment``                  once: the run's experiment file as text, if there is one
    the HParams tab                 once: ``BeginFacts.settings``, for sorting and filtering runs
    ==============================  ========================================================================

    A resumed session writes a new file, which makes TensorBoard drop the events after the last checkpoint of a killed
    session, as they are written again. Events before a checkpoint are on disk before the checkpoint.

    Args:
        every_steps: updates between summaries of ``train`` and ``time``; fewer if ten times as many timesteps have
            passed.
        weights_every_steps: updates between summaries of weights; None for never.
        weights_histograms: also write histograms of weights, with 30 bins over the range of finite values.
        clock: returns seconds; for tests.
    """

    def __init__(
        self,
        every_steps: int = 100,
        weights_every_steps: int | None = None,
        *,
        weights_histograms: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self._scalars = Scalars(count("SummaryHook(every_steps)", every_steps), clock)
        self._weights_every = (
            None if weights_every_steps is None else count("SummaryHook(weights_every_steps)", weights_every_steps)
        )
        self._histograms = flag("SummaryHook(weights_histograms)", weights_histograms)
        if weights_histograms and weights_every_steps is None:
            message = "SummaryHook(weights_histograms) needs weights_every_steps, got None"
            raise ArgumentError(message, "SummaryHook(weights_every_steps)", None)
        self._clock = clock
        self._writer: Any = None
        self._waiting: list[tuple[int, Mapping[str, float], float]] = []
        """Timestep, values and wall time of events with numbers."""
        self._hand_over_at = math.inf

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Open a new event file; describe the run in the first one."""
        first = not any((session.model_dir / FOLDER).glob("*"))
        self._open(session)
        self._writer.add_event(_start(session.position))  # also after a kill before the first timestep was saved
        if first:
            for summary in _descriptions(session, facts):
                self._writer.add(session.position, summary)
            self._writer.flush()
        self._scalars.start(session)

    def after_update(self, session: Session, facts: UpdateFacts) -> None:
        """Write loss, metrics, rates and norms of weights when due."""
        if values := self._scalars.of_update(session, facts):
            self._write(session, values)
        if self._weights_every is not None and session.global_step % self._weights_every == 0:
            self._write_weights(session)

    @by_the_clock
    def after_timestep(self, session: Session, facts: TimestepFacts) -> None:
        """Write due events, also without updates and episodes."""
        if self._clock() >= self._hand_over_at:
            self._write_pending()

    def after_episode(self, session: Session, facts: EpisodeStats) -> None:
        """Write the episode."""
        self._write(session, self._scalars.of_episode(facts))

    def after_evaluation(self, session: Session, facts: EvaluationFacts) -> None:
        """Write the results, also of an evaluation in the ``end`` of a later hook."""
        with self._opened(session):
            self._write(session, evaluation_values(facts))

    def after_video(self, session: Session, facts: VideoFacts) -> None:
        """Write the preview as an animated image."""
        with self._opened(session):
            self._write_image(session, "eval/video", facts.preview)

    def end(self, session: Session, facts: EndFacts) -> None:
        """Write buffered events and close the file."""
        self._close()

    def state_dict(self) -> State:
        """The window of episodes; flushes events, as a resumed session will not write them again."""
        if self._writer is not None:
            self._write_pending()
            self._writer.flush()
        return self._scalars.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Restore the window of episodes."""
        self._scalars.load_state_dict(state)

    @contextlib.contextmanager
    def _opened(self, session: Session) -> Iterator[None]:
        """Open the writer; after the end, temporarily."""
        if self._writer is not None:
            yield
            return
        self._open(session)
        try:
            yield
        finally:
            self._close()

    def _open(self, session: Session) -> None:
        directory = session.model_dir / FOLDER
        directory.mkdir(parents=True, exist_ok=True)
        self._writer = EventFile(directory)

    def _close(self) -> None:
        if self._writer is not None:
            try:
                self._write_pending()
            finally:
                writer, self._writer = self._writer, None
                writer.close()

    def _write_weights(self, session: Session) -> None:
        arrays = {name: np.asarray(value) for name, value in session.weights().items()}
        floats = _without_numbers({n: array for n, array in arrays.items() if np.issubdtype(array.dtype, np.floating)})
        self._write(session, add_prefix("weights_norm", {name: _norm(array) for name, array in floats.items()}))
        if self._histograms:
            self._write_histograms(session, add_prefix("weights", floats))

    def _write_histograms(self, session: Session, arrays: Mapping[str, Any]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb

        summary = Summary()
        for tag, array in arrays.items():
            summary.MergeFrom(histogram_pb(tag, array[np.isfinite(array)]))
        self._write_now(session, summary)

    def _write_image(self, session: Session, tag: str, gif: bytes) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        width, height = struct.unpack("<HH", gif[6:10])  # from the GIF header
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
        self._write_now(session, Summary(value=[Summary.Value(tag=tag, image=image)]))

    def _write_now(self, session: Session, summary: Any) -> None:
        self._write_pending()
        self._writer.add(session.position, summary)
        self._writer.flush()

    def _write(self, session: Session, values: Mapping[str, float]) -> None:
        """Buffer one event with all values."""
        if not self._waiting:
            self._hand_over_at = self._clock() + FLUSH_SECS
        self._waiting.append((session.position, values, time.time()))
        if len(self._waiting) >= QUEUE_SIZE or self._clock() >= self._hand_over_at:
            self._write_pending()

    def _write_pending(self) -> None:
        """Write the buffered events."""
        waiting, self._waiting, self._hand_over_at = self._waiting, [], math.inf
        for timestep, values, wall_time in waiting:
            self._writer.add_scalars(timestep, values, wall_time)
        if waiting:
            self._writer.flush()


def _start(timestep: int) -> Any:
    """Event that makes TensorBoard drop events after this timestep, if it is not the first file."""
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog

    return Event(wall_time=time.time(), step=timestep + 1, session_log=SessionLog(status=SessionLog.START))


def _descriptions(session: Session, facts: BeginFacts) -> Iterator[Any]:
    """The run's settings for the HParams tab, and its experiment file."""
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb
    from tensorboard.plugins.text.summary_v2 import text_pb

    # Metrics are not declared, so that TensorBoard offers all scalars, and all settings of all runs.
    if facts.settings:
        yield hparams_pb(dict(facts.settings), trial_id=str(session.model_dir))
    experiment = session.model_dir / EXPERIMENT
    if experiment.is_file():
        yield text_pb("experiment", f"```yaml\n{experiment.read_text(encoding='utf-8')}\n```")


def _without_numbers(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten unique names of variables: ``0003.online/dense/kernel`` to ``online/dense/kernel``."""
    names = {name: re.sub(r"^\d+\.", "", name) for name in arrays}
    several = collections.Counter(names.values())
    return {name if several[names[name]] > 1 else names[name]: array for name, array in arrays.items()}


def _norm(array: np.ndarray[Any, Any]) -> float:
    return float(np.linalg.norm(array.astype(np.float64, copy=False).ravel()))
