"""The log and warnings on the terminal: one line each, wrapped to its width."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import Final

from ...hooks.progress import packed
from ...hooks.status import SEPARATOR
from ..console import tell

_INDENT: Final = " " * len("12:00:00 ")


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
        text = self.format(record)
        if sys.stderr is not None and sys.stderr.isatty():  # a terminal would break it within a word
            text = wrapped(text, shutil.get_terminal_size().columns)
        tell(text)


def wrapped(text: str, columns: int) -> str:
    """Wrap a line of the log that is wider than the terminal, between its parts if possible."""
    width = max(columns - len(_INDENT), 20)
    lines = [
        line
        for part in packed(text.split(SEPARATOR), width)
        for line in textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False)
    ]
    return text if len(text) <= columns else f"\n{_INDENT}".join(lines)
