"""Carrying out a command: what goes wrong becomes one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import traceback

from ...errors import BrokenEnvironmentError, CheckpointError, ClusterError, NonFiniteError
from ..console import FAILED, INTERRUPTED, USAGE, say
from ..errors import ExperimentError
from .arguments import Command
from .terminal import messages

MAX_TEXT = 2000
"""Characters of an error in a message: it may quote a value of any length."""


def carry_out(command: Command, arguments: argparse.Namespace) -> int:
    """Run a command.

    Args:
        command: what to run.
        arguments: its arguments.

    Returns:
        The exit code.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the sign ± must not fail a finished training
    with messages():
        try:
            return command(arguments)
        except KeyboardInterrupt:
            say("Stopped by Ctrl-C.")
            return INTERRUPTED
        except BrokenPipeError:  # the reader of our output, head for example, has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except Exception as error:
            return failed(error, arguments)
        finally:
            try:
                sys.stderr.flush()
            except OSError:  # Python would try again at its end, and return 120
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def failed(error: Exception, arguments: argparse.Namespace, remark: str = "") -> int:
    """Tell the user what went wrong; returns the exit code."""
    if arguments.debug:
        traceback.print_exception(error)
    for one in error.errors if isinstance(error, ExperimentError) else [error]:
        say(f"error: {_explained(one)}")
    if remark:
        say(remark)
    return USAGE if isinstance(error, ExperimentError) else FAILED


def _explained(error: Exception) -> str:
    """One paragraph, or what a cluster says in lines of its own; for an unexpected error with its type."""
    text = str(error).strip() if isinstance(error, ClusterError) else " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:  # without its number
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}..."
    expected = (ValueError, OSError, BrokenEnvironmentError, CheckpointError, ClusterError, NonFiniteError)
    if text and (isinstance(error, expected) or os.strerror(errno.ENOSPC) in text):  # TensorFlow raises its own
        return text
    return f"{type(error).__name__}: {text}; --debug prints the traceback"
