"""Standard error: one line where something slow begins, and not what libraries write to it on their own."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator

_logger = logging.getLogger("axonrl")
_users: list[int] = []
"""The process that has used TensorFlow first: this one, or one that it was forked from."""


def announce(text: str) -> None:
    """Say at once that something slow begins: in the log, where somebody reads that, or else on a terminal."""
    if _logger.isEnabledFor(logging.INFO) and _logger.hasHandlers():
        _logger.info(text)
    elif sys.stderr is not None and sys.stderr.isatty():
        with contextlib.suppress(OSError):
            print(f"axonrl: {text}", file=sys.stderr, flush=True)


def load_tensorflow() -> None:
    """Import TensorFlow without the lines that its libraries print; they are printed if the import fails.

    TF_CPP_MIN_LOG_LEVEL is set to 3, unless it is set: errors of its C++ libraries are still shown.
    """
    if "tensorflow" in sys.modules:
        return
    announce("Loading TensorFlow ...")
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


def use_tensorflow() -> None:
    """To be called before TensorFlow runs or traces anything.

    Raises:
        RuntimeError: this process was forked from one that has used TensorFlow: its threads are missing here, so that
            TensorFlow would wait for them for ever.
    """
    if not _users:
        _users.append(os.getpid())
    elif _users[0] != os.getpid():
        raise RuntimeError(
            f"this process was forked from process {_users[0]}, which has used TensorFlow, which hangs in a forked"
            " process. Start processes with multiprocessing.get_context('spawn'), or with set_start_method('spawn')."
            " Only what runs in LiteRT works here: a Policy, or an Agent of a compiled program"
        )


@contextlib.contextmanager
def stderr_aside() -> Iterator[Callable[[], str]]:
    """What C++ libraries write to standard error while this is open is kept aside.

    Neither Python's ``sys.stderr`` nor TF_CPP_MIN_LOG_LEVEL reaches what they write
    (https://github.com/tensorflow/tensorflow/issues/100442).

    Yields:
        a function that returns what was kept so far.
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        original = os.dup(2)
    except OSError:  # closed: there is nowhere to write to
        yield lambda: ""
        return
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            yield lambda: os.pread(aside.fileno(), 1 << 20, 0).decode(errors="replace")
        finally:
            os.dup2(original, 2)
            os.close(original)
