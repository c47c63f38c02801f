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
from collections.abc import Sequence
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def end_with_gateway(connection: socket.socket) -> bool:
    """On Linux, let the kernel kill this process with the gateway; elsewhere it sees the closed socket on a read.

    Converting a program takes seconds without a read, and so may loading agents. No acknowledged step is lost.

    Args:
        connection: socket to the gateway.

    Returns:
        Whether the gateway still exists; it may have ended before this call.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return not hung_up(connection)


def hung_up(connection: socket.socket) -> bool:
    """Whether the other end is closed, even if there is still data to read."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP)
    return bool(poll.poll(0))


def wait_for(
    reads: Sequence[socket.socket], seconds: float, writes: Sequence[socket.socket] = ()
) -> list[socket.socket]:
    """Wait until a socket is readable (or writable, for ``writes``); returns the readable ones.

    ``select.select`` takes no descriptor above 1,023, which a gateway with many connections may pass on.
    """
    poll = select.poll()
    for one in reads:
        poll.register(one, select.POLLIN | (select.POLLOUT if one in writes else 0))
    ready = {descriptor for descriptor, events in poll.poll(max(seconds, 0.0) * 1000) if events & ~select.POLLOUT}
    return [one for one in reads if one.fileno() in ready]


def main() -> None:
    """Run the command line."""
    descriptor, module = sys.argv[1:3]
    connection = socket.socket(fileno=int(descriptor))
    os.umask(0o077)  # agents' files are private
    if end_with_gateway(connection):
        connection.detach()
        sys.argv = [module, descriptor, *sys.argv[3:]]
        runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
