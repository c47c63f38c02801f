"""What the command line lets through to the terminal: the log and warnings, a line each; not TensorFlow's greetings."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator

from ...policies.quiet import stderr_aside


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """The log of axonrl and Python's warnings go to standard error while this is open."""
    logger, handler = logging.getLogger("axonrl"), _ErrorStream()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    level, format_warning = logger.level, warnings.formatwarning
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    warnings.formatwarning = lambda message, *_, **__: f"axonrl: warning: {message}\n"
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        warnings.formatwarning = format_warning


def load_tensorflow() -> None:
    """Import TensorFlow without the lines on processors and drivers that its libraries write as they are loaded.

    They are shown if the import fails.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    lines = ""
    try:
        with stderr_aside() as written:
            try:
                importlib.import_module("tensorflow")
            finally:
                lines = written()
    except Exception:
        print(lines, end="", file=sys.stderr)
        raise


class _ErrorStream(logging.Handler):
    """Writes to what standard error is at the moment: a progress bar puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(self.format(record))


def tell(text: str) -> None:
    """A line to standard error, if it can be written: a run does not end because ``| tee`` has, or its terminal."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)
