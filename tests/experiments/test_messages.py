"""The lines between the process that follows a run and the one that trains."""

import io
import json

import pytest

from axonrl.experiments.tracking.messages import Message, parse, write


def test_a_message_is_a_line_of_json() -> None:
    out = io.StringIO()
    write(out, Message("stop", "stopped at\nthe server"))
    assert json.loads(out.getvalue()) == {"type": "stop", "text": "stopped at\nthe server"}
    assert parse(out.getvalue()) == Message("stop", "stopped at\nthe server")


@pytest.mark.parametrize("line", ["stop: a library", '{"type": "stop"}', "[" * 100_000])
def test_anything_else_is_a_warning(line: str) -> None:
    assert parse(line) == Message("warning", line)
