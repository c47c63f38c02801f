"""Commands at a terminal: log, warnings and errors wrapped to its width, and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from ...core.errors import ArgumentError, is_expected, message_of
from ...hooks.progress import pack
from ...hooks.status import SEPARATOR
from ..console import FAILED, INTERRUPTED, USAGE, say, tell
from ..errors import ExperimentError

_INDENT: Final = " " * len("12:00:00 ")


def carry_out(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command.

    Args:
        command: the command's function.
        arguments: its arguments.

    Returns:
        The exit code.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks the sign ± must not fail a finished training
    with messages():
        try:
            code = command(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()  # its errors are those of the command, too
            return code
        except KeyboardInterrupt:
            say("Stopped by Ctrl-C.")
            return INTERRUPTED
        except BrokenPipeError:  # the reader of the output, such as head, has ended
            return FAILED
        except (Exception, SystemExit) as error:  # an environment may call sys.exit(0) when its window is closed
            return report_error(error, arguments)
        finally:
            _flush(sys.stdout)
            _flush(sys.stderr)


def _flush(stream: TextIO | None) -> None:
    """Write what is buffered, or discard it: otherwise Python would try again on exit, and return 120."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def report_error(error: BaseException, arguments: argparse.Namespace, remark: str = "") -> int:
    """Print an error; returns the exit code."""
    if arguments.debug:
        traceback.print_exception(error)
    for one in error.errors if isinstance(error, ExperimentError) else [error]:
        say(f"error: {message_of(one)}{'' if is_expected(one) else '; --debug prints the traceback'}")
    if remark:
        say(remark)
    return USAGE if isinstance(error, ExperimentError | ArgumentError) else FAILED


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """Print axonrl's log and Python's warnings to standard error within the context."""
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
        if sys.stderr is not None and sys.stderr.isatty():  # the terminal would break lines within words
            text = wrap_line(text, shutil.get_terminal_size().columns)
        tell(text)


def wrap_line(text: str, columns: int) -> str:
    """Wrap a log line that is wider than the terminal, between its parts if possible."""
    width = max(columns - len(_INDENT), 20)
    lines = [
        line
        for part in pack(text.split(SEPARATOR), width)
        for line in textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False)
    ]
    return text if len(text) <= columns else f"\n{_INDENT}".join(lines)
