"""What reaches the terminal."""

import io
import sys
from argparse import Namespace

import pytest

from axonrl.experiments.commands.failures import carry_out
from axonrl.experiments.console import tell


class Gone(io.StringIO):
    """Has nobody who reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_nobody_need_read_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Gone())
    tell("a line")


def test_what_standard_output_cannot_show_is_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))

    def command(arguments: Namespace) -> int:
        print("262.40 ± 21.00")
        return 0

    assert carry_out(command, Namespace(debug=False)) == 0
    assert written.getvalue() == b"262.40 ? 21.00\n"
