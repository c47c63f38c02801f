"""Logs of all processes of a service as JSON lines on standard error, without secrets."""

from __future__ import annotations

import datetime
import json
import logging
import re
import sys
import threading
from typing import Final, TextIO

LOGGER: Final = logging.getLogger("axonrl.serving")

_SECRETS: Final = re.compile(
    r"""
    ax[lpw]_[0-9A-Za-z]+  # a token or a cookie of ours, wherever it stands
    | (?P<scheme>(?i:bearer|basic)\s+) [^\s"',;]+
    | (?<![\w+.-]) (?P<user>[a-zA-Z][\w+.-]{{,30}}://[^\s/?\#:@"']*:) [^\s"']{{1,1024}} (?=@)  # scheme://user:password@host
    | (?P<name>(?i:
        (?P<long>(?:set-)?cookie|password|authorization(?!{equals}{quote}?(?:bearer|basic)\b))
        | access_token|token|current|new
      ){equals})
      # In quotes it ends with them, and with the text if they do not end. A password without may have anything in it.
      (?: (?P<quote>{quote}) (?s:\\?.)*? (?:(?P=quote)|\Z) | (?(long)[^\n&]+|[^\s"',;&}}]+) )
    """.format(equals=r"""\\*["']?\s*[:=]\s*""", quote=r"""\\*["']"""),
    re.VERBOSE,
)
_EXTRA: Final = ("request_id", "method", "route", "status", "milliseconds", "address", "user", "worker", "agent")


def redact(text: str) -> str:
    """Replace tokens, passwords and other secrets in a text."""
    return _SECRETS.sub(_redact, text)


def _redact(match: re.Match[str]) -> str:
    before, quote = match["scheme"] or match["user"] or match["name"] or "", match["quote"] or ""
    return f"{before}{quote}[redacted]{quote}"


class _Serving(threading.local):
    """The agent that this thread of a worker serves at the moment; None between agents."""

    agent: str | None = None


SERVING: Final = _Serving()


class _OfWorker(logging.Filter):
    """Adds the worker's number, and the agent that it serves, to each line.

    Args:
        number: the worker's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def filter(self, record: logging.LogRecord) -> bool:
        """Annotate a record; never drops it."""
        record.worker = self._number
        if SERVING.agent is not None:
            record.agent = SERVING.agent
        return True


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; all of the line is redacted, the traceback included."""
        when = datetime.datetime.fromtimestamp(record.created, datetime.timezone.utc)
        line = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for name in _EXTRA:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = redact(value) if isinstance(value, str) else value
        if record.exc_info:
            line["traceback"] = redact(self.formatException(record.exc_info))
        return json.dumps(line)


def configure(level: str, stream: TextIO | None = None) -> logging.Handler:
    """Make axonrl's and uvicorn's loggers write JSON lines.

    Returns:
        The handler, for :func:`unconfigure`.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name, least in (("axonrl.serving", level.upper()), ("uvicorn", "WARNING"), ("asyncio", "WARNING")):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(least)
        logger.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
    return handler


def configure_child(level: str, worker: int | None = None) -> None:
    """Make all loggers in a process of the gateway write JSON lines, warnings included.

    Args:
        level: lowest level that is written.
        worker: the worker's number, from 1, added to every line with the agent served; None in the builder.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    if worker is not None:
        handler.addFilter(_OfWorker(worker))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.captureWarnings(True)


def unconfigure(handler: logging.Handler) -> None:
    """Undo :func:`configure`."""
    for name in ("axonrl.serving", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
