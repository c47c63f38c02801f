"""Keeps libraries that write to the process's standard error from the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator


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
