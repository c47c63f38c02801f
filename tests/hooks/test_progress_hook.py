import errno
import io
import logging
import re
import sys
from typing import Any

import pytest
from rich.console import Console

from axonrl.hooks import Hooks, ProgressHook
from axonrl.hooks.events import BeginFacts, EndFacts, EvaluationFacts
from axonrl.hooks.progress import pack
from axonrl.tests.hooks.facts import UPDATE, begun

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@pytest.fixture
def terminal() -> Console:
    environment = {"TERM": "xterm-256color", "COLUMNS": "200"}
    return Console(force_terminal=True, file=io.StringIO(), _environ=environment)


@pytest.fixture
def pipe() -> Console:
    return Console(file=io.StringIO(), width=40, _environ={})


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    console.file.seek(0)
    console.file.truncate()
    return text


def test_plain_lines_at_most_every_five_seconds(session: Any, clock: Any, pipe: Console) -> None:
    hook = ProgressHook(every_secs=0.5, console=pipe, clock=clock)
    hook.begin(session, BeginFacts(1, False, {"timesteps": 1_000}))
    hook.after_episode(session, session.episode(21.0))
    for second in range(1, 11):
        clock.now += 1
        session.global_timestep = 10 * second
        hook.after_update(session, UPDATE)
    assert written(pipe).splitlines() == [
        "timestep 50/1,000 | update 0 | episode 1 | return(100) 21.00 | loss 0.5 | 10 timesteps/s",
        "timestep 100/1,000 | update 0 | episode 1 | return(100) 21.00 | loss 0.5 | 10 timesteps/s",
    ]
    session.global_timestep = 110
    clock.now += 1
    hook.end(session, EndFacts("done", None, 11.0))
    assert written(pipe) == "timestep 110/1,000 | update 0 | episode 1 | return(100) 21.00 | 10 timesteps/s\n"


def test_a_live_bar_on_a_terminal(session: Any, clock: Any, terminal: Console) -> None:
    hook = ProgressHook(every_secs=0.5, console=terminal, clock=clock)
    before = sys.stdout, sys.stderr
    hook.begin(session, BeginFacts(1, False, {"timesteps": 1_000, "steps": 10}))
    assert HIDE_CURSOR in written(terminal)
    session.exploration = 0.25
    session.global_timestep = 500
    hook.after_evaluation(session, EvaluationFacts({"episode_return_mean": 99.5}, (99.5,)))
    hook.after_update(session, UPDATE)
    assert written(terminal) == ""  # not yet time
    clock.now += 0.5
    hook.after_update(session, UPDATE)
    text = written(terminal)
    rows = [row.rstrip() for row in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text).split("\n")]
    line, bar = rows
    assert line == (
        "timestep 500/1,000 | update 0/10 | episode 0 | loss 0.5 | exploration rate 0.25 | 1,000 timesteps/s"
        " | evaluation 99.50"
    )
    done, left = bar.removesuffix("  50% 0:00:00 left -:--:--").split("╺")
    assert set(done + left) == {"━"}
    assert len(done) == len(left) + 1 > 80
    hook.end(session, EndFacts("done", None, 1.0))
    assert SHOW_CURSOR in written(terminal)
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize(
    ("limits", "share"), [({"timesteps": 1_000, "steps": 10}, 0.8), ({"episodes": 2}, 1.0), ({}, None)]
)
def test_the_bar_runs_to_the_first_limit(session: Any, terminal: Console, limits: Any, share: float | None) -> None:
    session.global_timestep, session.global_step, session.global_episode = 500, 8, 3
    hook = begun(ProgressHook(console=terminal), session, facts=BeginFacts(1, True, limits))
    assert hook._bar is not None
    (task,) = hook._bar.tasks
    assert (task.total, task.completed) == ((None, 0.0) if share is None else (1.0, share))
    hook.end(session, EndFacts("done", None, 1.0))


def test_no_part_of_a_line_is_broken() -> None:
    parts = ["timestep 500/1,000", "update 0/10", "686 timesteps/s", "x" * 50]
    assert pack(parts, 40) == ["timestep 500/1,000 | update 0/10", "686 timesteps/s", "x" * 50]
    assert pack(parts[:3], 50) == ["timestep 500/1,000 | update 0/10 | 686 timesteps/s"]


def test_the_terminal_is_given_back_when_drawing_fails(
    session: Any, terminal: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = ProgressHook(console=terminal)
    before = sys.stdout, sys.stderr
    hook.begin(session, BeginFacts(1, False, {}))
    assert sys.stdout is not before[0]  # what the environment prints goes above the bar

    def fail(session: Any, rate: float) -> str:
        raise RuntimeError("no line")

    monkeypatch.setattr(hook, "_line", fail)
    with pytest.raises(RuntimeError, match="no line"):
        Hooks([hook]).end(session, EndFacts("done", None, 1.0))
    assert (sys.stdout, sys.stderr) == before
    assert SHOW_CURSOR in written(terminal)


def test_log_lines_go_above_the_bar(session: Any, terminal: Console) -> None:
    logger, handler = logging.getLogger("axonrl"), logging.StreamHandler()
    logger.addHandler(handler)
    try:
        before = handler.stream
        hook = begun(ProgressHook(console=terminal), session)
        written(terminal)
        logger.warning("look here")
        assert "look here\n" in written(terminal)
        hook.end(session, EndFacts("done", None, 1.0))
        assert handler.stream is before
    finally:
        logger.removeHandler(handler)


def test_a_dumb_terminal_gets_plain_lines(session: Any, clock: Any) -> None:
    console = Console(force_terminal=True, file=io.StringIO(), _environ={"TERM": "dumb"})
    hook = begun(ProgressHook(console=console, clock=clock), session)
    clock.now += 5
    hook.after_update(session, UPDATE)
    assert written(console) == "timestep 0 | update 0 | episode 0 | loss 0.5 | 0 timesteps/s\n"


def test_it_writes_to_standard_error(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    hook = begun(ProgressHook(), session)
    hook.end(session, EndFacts("done", None, 1.0))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("timestep 0 | update 0 | episode 0")


class Closed(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.EIO, "Input/output error")])
def test_a_closed_terminal_does_not_end_the_run(error: OSError, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Closed(error))
    hook = begun(ProgressHook(), session, facts=BeginFacts(1, False, {"timesteps": 1_000}))
    hook.end(session, EndFacts("done", None, 1.0))
