"""A process that the gateway started ends with it, whatever ended that.

``python -m axonrl.serving.workers.parent_death DESCRIPTOR MODULE ...`` sees to that, and then runs the module with the
other arguments, descriptor first: what the module imports takes time, in which the gateway may be killed.
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
    """On Linux, be killed when the gateway is; elsewhere a process sees the closed socket once it looks there.

    Converting a program takes seconds in which no socket is looked at, and so may bringing agents back. Nothing that
    was acknowledged is lost.

    Args:
        connection: to the gateway.

    Returns:
        Is it there? It may have ended before it was asked for.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return not hung_up(connection)


def hung_up(connection: socket.socket) -> bool:
    """Is the other end closed? Also where there is still something to be read."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP)
    return bool(poll.poll(0))


def wait_for(
    reads: Sequence[socket.socket], seconds: float, writes: Sequence[socket.socket] = ()
) -> list[socket.socket]:
    """Wait until there is something to be read (or room for what is to be written); returns what can be read from.

    ``select.select`` takes no descriptor above 1,023, which a gateway with many connections may hand over.
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
    os.umask(0o077)  # what agents have learned is for nobody else
    if end_with_gateway(connection):
        connection.detach()
        sys.argv = [module, descriptor, *sys.argv[3:]]
        runpy.run_module(module, run_name="__main__")


if __name__ == "__main__":
    main()
