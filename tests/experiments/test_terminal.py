"""Output on the terminal; and signals outside of a session: test_command_line.py has those within."""

import io
import logging
import os
import signal
import subprocess
import sys
from argparse import Namespace
from typing import Any

import pytest

from axonrl.experiments.commands.terminal import carry_out, messages
from axonrl.experiments.console import tell
from axonrl.experiments.running.signals import StopOnSignal
from axonrl.hooks.events import BeginFacts, EndFacts
from axonrl.tests.experiments.sharing import Terminal
from axonrl.tests.raising import raised

BEGIN, END = BeginFacts(1, False, {}), EndFacts("done", None, 1.0)


class Gone(io.StringIO):
    """Has nobody who reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_nobody_need_read_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Gone())
    tell("a line")


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (Terminal, ["timestep 4,000/4,000", "loss 12.875 | 4,247 timesteps/s"]),
        (io.StringIO, ["timestep 4,000/4,000 | loss 12.875 | 4,247 timesteps/s"]),
    ],
)
def test_no_part_of_the_log_is_broken_on_a_terminal(
    kind: type[io.StringIO], shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", written := kind())
    with messages():
        logging.getLogger("axonrl").info("timestep 4,000/4,000 | loss 12.875 | 4,247 timesteps/s")
    assert [line[9:] for line in written.getvalue().splitlines()] == shown


def test_what_standard_output_cannot_show_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))

    def command(arguments: Namespace) -> int:
        print("262.40 ± 21.00")
        return 0

    assert carry_out(command, Namespace(debug=False)) == 0
    assert written.getvalue() == b"262.40 ? 21.00\n"


@pytest.mark.parametrize("words", [["completion", "bash"], ["list"]])
@pytest.mark.parametrize(("target", "error"), [("/dev/full", "axonrl: error: No space left on device\n"), ("", "")])
def test_output_that_cannot_be_written_fails_the_command_once(words: list[str], target: str, error: str) -> None:
    reader, pipe = os.pipe()
    os.close(reader)  # a pipe that nobody reads any more
    output = os.open(target, os.O_WRONLY) if target else pipe
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "axonrl", *words]
    found = subprocess.run(command, check=False, stdout=output, stderr=subprocess.PIPE, text=True, env=environment)
    for descriptor in {output, pipe}:
        os.close(descriptor)
    assert (found.returncode, found.stderr) == (1, error)


@pytest.mark.parametrize("ended", [False, True])
def test_outside_of_a_session_it_raises_at_once(session: Any, ended: bool) -> None:
    with StopOnSignal() as signals:
        if ended:
            signals.begin(session, BEGIN)
            signals.end(session, END)
        raised(KeyboardInterrupt, signal.raise_signal, signal.SIGTERM)
    assert session.stop_reason is None
    assert signals.name == "SIGTERM"
