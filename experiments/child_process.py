"""Python processes that axonrl starts beside its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any


def started(main: Callable[..., object], arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a Python process that calls ``main(arguments)``, a function of a module; what it returns is the exit code.

    Its standard input closes when this process ends, whatever ends it. Ctrl-C reaches this process alone.

    Args:
        main: what it calls.
        arguments: text.
        **options: of ``subprocess.Popen``.

    Raises:
        OSError: it could not be started.
    """
    # What can be imported here can be imported there: a model function or a tracker may be the user's own.
    name, module = main.__name__, main.__module__
    code = f"import sys; sys.path[:] = {sys.path}; from {module} import {name}; sys.exit({name}(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        **options,
    )
