"""Shows the status of a run on the terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import html
import importlib
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..core.checks import number
from .events import BeginFacts, EndFacts, Session
from .measures import Clock
from .status import SEPARATOR, StatusHook

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress

PLAIN_SECS = 5.0
"""Minimum seconds between two plain lines."""


class ProgressHook(StatusHook):
    """Shows the status and a progress bar on a terminal or in a notebook; otherwise prints a line every few seconds.

    The bar, with percent, time elapsed and time remaining, shows the progress to the nearest limit of ``train``;
    without limits it pulses. It is redrawn after updates and episodes, without a thread.

    Args:
        every_secs: seconds between updates of the display; plain lines come at most every 5 s.
        console: rich console for output; None for standard error.
        clock: returns seconds; for tests.
    """

    def __init__(
        self, every_secs: float = 0.5, console: Console | None = None, *, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(number("ProgressHook(every_secs)", every_secs, above=0), clock)
        self._live_secs = self._every_secs
        self._console = console
        self._live: Live | None = None
        self._cell: Any = None
        """Handle of the display in a notebook's cell."""
        self._bar: Progress | None = None
        self._display = contextlib.ExitStack()

    def begin(self, session: Session, facts: BeginFacts) -> None:
        """Open the display."""
        from rich.live import Live

        self._console = console = self._console or error_console()
        live = console.is_terminal and not console.is_dumb_terminal
        self._every_secs = self._live_secs if live else max(self._live_secs, PLAIN_SECS)
        super().begin(session, facts)
        if console.is_jupyter:
            display = importlib.import_module("IPython.display").display  # of whoever runs the notebook
            self._cell = display(self._status_of(session, self._line(session)), display_id=True)
        elif live:
            with contextlib.ExitStack() as stack:
                self._live = stack.enter_context(shown_above(Live(console=console, auto_refresh=False)))
                self._show(session, self._line(session))
                self._display = stack.pop_all()

    def end(self, session: Session, facts: EndFacts) -> None:
        """Draw the final state and restore the terminal."""
        try:
            self._report_last(session)
        finally:
            self._live = self._bar = self._cell = None
            with contextlib.suppress(OSError):
                self._display.close()

    def _show(self, session: Session, line: str) -> None:
        with contextlib.suppress(OSError):  # a closed terminal must not end the run
            self._draw(session, line)

    def _draw(self, session: Session, line: str) -> None:
        if self._cell is not None:
            self._cell.update(self._status_of(session, line))
        elif self._live is not None:
            from rich.console import Group
            from rich.text import Text

            text = "\n".join(pack(line.split(SEPARATOR), self._live.console.width))
            self._live.update(Group(Text(text), self._updated_bar(session)), refresh=True)
        elif self._console is not None:
            self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _updated_bar(self, session: Session) -> Progress:
        done = self._share_done(session)
        if self._bar is None:
            self._bar = _bar(self._clock)
            self._bar.add_task("", total=None if done is None else 1.0)
        self._bar.update(self._bar.task_ids[0], completed=done or 0.0)
        return self._bar

    def _status_of(self, session: Session, line: str) -> _Status:
        (task,) = self._updated_bar(session).tasks
        left = "" if task.time_remaining is None else f"{datetime.timedelta(seconds=int(task.time_remaining))} left"
        return _Status(line, None if task.total is None else task.completed, left)

    def _share_done(self, session: Session) -> float | None:
        """Progress of the run, 0 to 1, to the nearest limit; None without limits."""
        counts = {
            "steps": session.global_step,
            "episodes": session.global_episode,
            "timesteps": session.global_timestep,
        }
        shares = [counts[name] / limit for name, limit in self._limits.items()]
        return min(1.0, max(shares)) if shares else None


@dataclasses.dataclass(frozen=True)
class _Status:
    """A line in a notebook: progress, 0 to 1 (None without limits), time left and the status."""

    line: str
    done: float | None
    left: str

    def __repr__(self) -> str:
        return self.line

    def _repr_html_(self) -> str:
        if self.done is None:
            return f"<code>{html.escape(self.line)}</code>"
        text = SEPARATOR.join(filter(None, (f"{self.done:.0%}", self.left, self.line)))
        return f'<progress value="{self.done:.4f}" max="1"></progress> <code>{html.escape(text)}</code>'


def _bar(clock: Clock) -> Progress:
    """A bar as wide as the terminal, with percent, time elapsed and time remaining; the caller draws it."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(None), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    return Progress(*columns, auto_refresh=False, expand=True, get_time=clock)


def pack(parts: Sequence[str], width: int) -> list[str]:
    """Pack the parts into as few lines of at most this width as possible; parts are never split."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}{SEPARATOR}{part}" if lines else part
        if lines and len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def error_console() -> Console:
    """Console for standard error; silent after that was closed."""
    from rich import console

    class ErrorConsole(console.Console):
        def on_broken_pipe(self) -> None:  # rich ends the process
            self.quiet = True

    return ErrorConsole(stderr=True)


@contextlib.contextmanager
def shown_above(display: contextlib.AbstractContextManager[Live]) -> Iterator[Live]:
    """Open the display, with log lines printed above it.

    The display replaces ``sys.stdout`` and ``sys.stderr``, but logging's handlers hold the original streams.
    """
    hidden = sys.stdout, sys.stderr
    with display as live:
        moved = []
        for handler in (*logging.getLogger().handlers, *logging.getLogger("axonrl").handlers):
            for stream, stand_in in zip(hidden, (sys.stdout, sys.stderr), strict=True):
                if isinstance(handler, logging.StreamHandler) and handler.stream is stream:
                    handler.setStream(stand_in)
                    moved.append((handler, stream))
                    break
        try:
            yield live
        finally:
            for handler, stream in moved:
                handler.setStream(stream)
