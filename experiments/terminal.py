"""What the command line lets through to the terminal: the log and warnings, a line each; not TensorFlow's greetings."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
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

    TF_CPP_MIN_LOG_LEVEL does not reach these (https://github.com/tensorflow/tensorflow/issues/100442), so the
    process's standard error is kept aside meanwhile, and shown if the import fails.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            importlib.import_module("tensorflow")
        except Exception:
            aside.seek(0)
            os.write(original, aside.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)


class _ErrorStream(logging.Handler):
    """Writes to what standard error is at the moment: a progress bar puts itself in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)
