"""Videos of greedy episodes."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

from ..core.checks import count
from .events import BeginFacts, EndFacts, TimestepFacts, TrainingSession
from .hook import Hook
from .measures import multiple_after

FOLDER: Final = "videos"
_log = logging.getLogger(__name__)


class VideoHook(Hook):
    """Records a video of a greedy episode periodically: ``<model_dir>/videos/timestep-<n>.mp4``.

    It records at the first (vector) step that reaches a multiple of ``every_timesteps``, and once more at the end of a
    run that reached its limit. The episode has the seed of the first episode of an EvaluationHook's evaluation, in a
    separate environment; it does not count as an evaluation, and training is unaffected. If a video cannot be written
    (a full disk), a warning is logged. TensorBoard's Images tab shows some frames. Needs the package ``moviepy``:
    ``axonrl[video]``.

    Args:
        every_timesteps: timesteps between videos.
        env: an environment with ``render_mode="rgb_array"``, or an id; None for a copy of the training environment.

    Raises:
        ValueError: ``every_timesteps`` is not an integer of at least 1.
    """

    def __init__(self, every_timesteps: int, *, env: Any = None) -> None:
        self._every = count("VideoHook(every_timesteps)", every_timesteps)
        self._env = env
        self._next = sys.maxsize
        self._recorded_at: int | None = None

    def prepare(self, session: TrainingSession) -> None:
        """Check that the environment renders, and that the package is installed."""
        session.prepare_video(self._env)

    def begin(self, session: TrainingSession, facts: BeginFacts) -> None:
        """Find the next multiple."""
        self._next, self._recorded_at = multiple_after(session.global_timestep, self._every), None

    def after_timestep(self, session: TrainingSession, facts: TimestepFacts) -> None:
        """Record if a multiple of ``every_timesteps`` is reached."""
        if session.global_timestep >= self._next:
            self._next = multiple_after(session.global_timestep, self._every)
            self._record(session)

    def end(self, session: TrainingSession, facts: EndFacts) -> None:
        """Record at the end of a run, unless it failed, was asked to stop, or was recorded at this timestep."""
        if facts.error is None and not facts.stopped and self._recorded_at != session.global_timestep:
            self._record(session)

    def _record(self, session: TrainingSession) -> None:
        self._recorded_at = timestep = session.global_timestep
        path = session.model_dir / FOLDER / f"timestep-{timestep}.mp4"
        try:
            stats = session.record_video(path, self._env)
        except OSError as error:
            _log.warning("cannot write the video of timestep %d: %s", timestep, error)
        else:
            _log.info("%s: return %.6g in %d timesteps", path, stats.episode_return, stats.length)
