"""Make a child process end with the gateway, however that ends.

``python -m axonrl.serving.workers.parent_death DESCRIPTOR MODULE ...`` arranges this, and then runs the module with the
other arguments, descriptor first: the module's imports take time, during which the gateway may be killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import runpy
import select
import signal
import socket
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def hung_up(connection: socket.socket) -> bool:
    """Whether the other end is closed, even if there is still data to read."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP)
    return bool(poll.poll(0))


def main() -> None:
    """Run the command line.

    On Linux the kernel kills this process with the gateway; elsewhere it sees the closed socket on a read. Converting a
    program takes seconds without a read, and so may loading agents. No acknowledged step is lost.
    """
    descriptor, module = sys.argv[1:3]
    connection = socket.socket(fileno=int(descriptor))
    os.umask(0o077)  # agents' files are private
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if not hung_up(connection):  # it may have ended before that
        connection.detach()
        sys.argv = [module, descriptor, *sys.argv[3:]]
        runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
