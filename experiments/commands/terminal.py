"""What reaches the terminal: the log and warnings, one line each, without TensorFlow's messages at import."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator

from ...policies.quiet import stderr_aside
from ..console import say, tell


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """Print the log of axonrl and Python's warnings to standard error while this is open."""
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
    """Import TensorFlow without the lines that its libraries print; they are printed if the import fails."""
    if "tensorflow" in sys.modules:
        return
    say("Loading TensorFlow ...")
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
    """Writes to the current standard error, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(self.format(record))
