"""Messages from the process that follows a run to the one that trains: lines of JSON with a type."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Final, NamedTuple, TextIO, TypeAlias

WARNING: Final = "warning"
"""For the user."""
STOP: Final = "stop"
"""Stop the run; the text is the reason."""

WAIT: Final = "wait"
"""For the user, and for the waiting process: the end comes later than expected."""


class Message(NamedTuple):
    """One line: ``{"type": "stop", "text": "..."}``."""

    type: str
    text: str


Tell: TypeAlias = Callable[[Message], None]


def write(out: TextIO, message: Message) -> None:
    """Write a line, if anyone still reads."""
    with contextlib.suppress(OSError):
        print(json.dumps(message._asdict()), file=out, flush=True)


def parse(line: str) -> Message:
    """The message of a line. Anything else, from a library for example, is a warning in its own words."""
    try:
        return Message(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return Message(WARNING, line)
