"""What reaches the terminal."""

import io
import logging
import sys
from argparse import Namespace

import pytest

from axonrl.experiments.commands.failures import carry_out
from axonrl.experiments.commands.terminal import messages
from axonrl.experiments.console import tell


class Gone(io.StringIO):
    """Has nobody who reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_nobody_need_read_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Gone())
    tell("a line")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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
