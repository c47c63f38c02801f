"""Commands and their failures: an error becomes one line and an exit code."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback

from ...core.errors import is_expected, message_of
from ..console import FAILED, INTERRUPTED, USAGE, say
from ..errors import ExperimentError
from .arguments import Command
from .terminal import messages


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
    """Print an error; returns the exit code."""
    if arguments.debug:
        traceback.print_exception(error)
    for one in error.errors if isinstance(error, ExperimentError) else [error]:
        say(f"error: {message_of(one)}{'' if is_expected(one) else '; --debug prints the traceback'}")
    if remark:
        say(remark)
    return USAGE if isinstance(error, ExperimentError) else FAILED
