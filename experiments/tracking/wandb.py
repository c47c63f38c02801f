"""Weights & Biases as a tracker.

W&B only appends rows, each with a number ``_step``. Here this is the index of the row's last point in the run, so that
the last number on the server shows which points it lacks. In offline mode, each process that tracks the run writes
everything again, because the journal has all of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.checks import choice
from ...run_dir.learning_curve import CURVE
from ..errors import TrackerError
from .journal import ENDED, FAILED, STOPPED, SUCCEEDED, Point, TrackedRun
from .trackers import TrackerKind, Unsent, files_of

FOLDER: Final = "wandb"
"""W&B's folder in the run folder."""
LOG: Final = "log.txt"
AXIS: Final = "global_timestep"
"""The horizontal axis of all metrics."""
MODES: Final = ("online", "offline")
EXIT_CODES: Final = {SUCCEEDED: 0, FAILED: 1, STOPPED: 255}
"""Exit codes by status; by W&B's convention, 255 is a run that was stopped."""
ANSWER_SECS: Final = 10.0
"""Seconds for a run to begin, and to send the rest at its end."""
TAGS: Final = ("agent.model_fn", "environment.id")
"""Inputs whose values become tags."""
TAG_LENGTH: Final = 64
VARIABLES: Final = {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
"""Defaults of W&B's environment variables in this process, read when it is imported."""
SETTINGS: Final[dict[str, Any]] = {
    **{"init_timeout": ANSWER_SECS, "finish_timeout": ANSWER_SECS, "finish_timeout_raises": True},
    # After its last retry W&B silently drops the data.
    **{"x_file_stream_retry_max": 1_000_000, "x_file_stream_retry_wait_max_seconds": 30},
    # This process is not the one that trains: its output, code and resource usage say nothing about the run.
    **{"console": "off", "silent": True, "disable_code": True, "disable_git": True},
    **{"x_disable_stats": True, "x_disable_meta": True, "x_save_requirements": False},
}

_BEGINNING: Final = threading.Lock()
"""Makes runs begin in turn: all runs of a process share W&B's process, which a failure ends."""


class WandbError(TrackerError):
    """W&B could not be reached, or refused a request; the text is for the user."""


class WandbTracker(TrackerKind):
    """Weights & Biases: metrics, config, tags, status, files, log and learning curve of a run in a W&B project.

    The server is that of ``WANDB_BASE_URL``; it needs ``WANDB_API_KEY``, or ``wandb login``.

    Args:
        project: W&B's project of the run, created if missing.
        mode: ``"online"``, or ``"offline"`` for files in the run folder alone, which ``wandb sync`` uploads; None for
            ``WANDB_MODE``, else online.
        entity: the user or team of the project; None for the login's default.
        tags: additional tags of the run.
    """

    def __init__(
        self,
        project: str = "axonrl",
        mode: str | None = None,
        entity: str | None = None,
        tags: str | Sequence[str] = (),
    ) -> None:
        self._given: dict[str, Any] = {"project": project, "entity": entity}
        self._mode = os.environ.get("WANDB_MODE", MODES[0]) if mode is None else choice("mode", mode, MODES)
        self._tags = (tags,) if isinstance(tags, str) else tuple(tags)
        self._open: _Open | None = None
        self._ended: tuple[object, ...] | None = None
        """The numbers of starts and statuses, and the files, of the run when it was last ended here."""

    def push(self, run: TrackedRun) -> None:
        """Bring W&B up to date with the run.

        Raises:
            WandbError: pushing failed.
        """
        state = run.starts, len(run.statuses), files_of(run.folder)
        if state == self._ended:
            return
        try:
            if self._open is not None and self._open.is_void(run):
                self._close()
            if self._open is None:
                with _BEGINNING:
                    self._open = self._begin(run)
            latest = run.statuses[-1] if run.statuses else None  # before the points: the final status follows the last
            self._open.push(run, "" if latest is None else latest.message)
            if latest is not None and latest.status in ENDED:
                opened, self._open = self._open, None
                opened.run.finish(exit_code=EXIT_CODES[latest.status])
                self._ended = state
        except Exception as error:  # of many kinds: W&B's own, and those of its process and of connections
            self._close()
            raise WandbError(_explain(error)) from None

    def _begin(self, run: TrackedRun) -> _Open:
        for name, value in VARIABLES.items():
            os.environ.setdefault(name, value)
        import wandb

        for before in run.folder.glob(f"{FOLDER}/*run-*-{run.uuid}"):  # the journal has its contents
            shutil.rmtree(before)
        mode: Any = self._mode
        tags = [*self._tags, *(str(run.inputs[name]) for name in TAGS if name in run.inputs)]
        try:
            opened = wandb.init(
                **self._given,
                mode=mode,
                id=run.uuid,
                resume="allow",
                reinit="create_new",
                dir=run.folder,
                name=run.name,
                notes=run.description,
                group=None if run.group is None else run.group.label,
                tags=[tag[:TAG_LENGTH] for tag in dict.fromkeys(tags) if tag],
                config=run.inputs,
                allow_val_change=True,
                settings=wandb.Settings(**SETTINGS),
            )
        except Exception:  # otherwise W&B's own process would hold the run forever; other runs are begun again, too
            wandb.teardown(exit_code=1)
            raise
        opened.define_metric("*", step_metric=AXIS)
        return _Open(opened, run)

    def _close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            with contextlib.suppress(Exception):
                opened.run.finish(exit_code=1)


class _Open:
    """An open run: W&B's, and what has been sent to it."""

    def __init__(self, run: Any, tracked: TrackedRun) -> None:
        self.run = run
        self._points = tracked.points
        self._at = int(run.starting_step)
        """Number of points that W&B has."""
        self._unsent = Unsent()
        self._summary: dict[str, Any] = {}

    def is_void(self, tracked: TrackedRun) -> bool:
        """Does a file hold points that have been removed since, and can it be rewritten?"""
        return bool(self.run.offline) and self._points is not tracked.points

    def push(self, tracked: TrackedRun, message: str) -> None:
        """Send what W&B lacks."""
        for number, row in _rows(tracked.points, self._at):
            self.run.log(row, step=number, commit=True)
            self._at = number + 1
        summary = {**tracked.outputs, **({"message": message} if message else {})}
        if summary != self._summary:
            self.run.summary.update(summary)
            self._summary = summary
        for source in self._unsent.files(tracked.folder):
            self._push_file(source, tracked.folder)
        for lines in self._unsent.log(tracked):
            log = Path(self.run.dir, LOG)
            log.write_text("".join(f"{line.text}\n" for line in lines), encoding="utf-8")
            self.run.save(str(log), base_path=self.run.dir, policy="now")

    def _push_file(self, source: Path, folder: Path) -> None:
        import wandb

        if source.name == CURVE:
            self.run.summary[Path(CURVE).stem] = wandb.Image(str(source))
        else:
            self.run.save(str(source), base_path=str(folder), policy="now")


def _rows(points: Sequence[Point], at: int) -> Iterator[tuple[int, dict[str, float]]]:
    """The points from an index on as rows, each with the index of its last point."""
    new, row = points[at:], dict[str, float]()
    for number, point in enumerate(new, at):
        if row and (point.name in row or point[:2] != points[number - 1][:2]):
            yield number - 1, row
            row = {}
        row |= {AXIS: point.step, "_timestamp": point.time, point.name: point.value}
    if row:
        yield at + len(new) - 1, row


def _explain(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"Weights & Biases needs the module {error.name!r}, not installed here: pip install 'axonrl[wandb]'"
    address, text = os.environ.get("WANDB_BASE_URL", "wandb.ai"), " ".join(str(error).split())
    if "API key" in text or "error 401" in text:
        return f"Weights & Biases at {address} requires a login: set WANDB_API_KEY, or run: wandb login"
    if isinstance(error, TimeoutError) or "deadline exceeded" in text or "connection refused" in text:
        return f"Weights & Biases at {address} does not answer within {ANSWER_SECS:g} seconds, or fails: {text}"
    return f"Weights & Biases at {address}: {type(error).__name__}: {text}"
