"""What reaches the terminal: the log and warnings, one line each."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

from ..console import tell


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


class _ErrorStream(logging.Handler):
    """Writes to the current standard error, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(self.format(record))
