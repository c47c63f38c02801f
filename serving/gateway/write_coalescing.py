"""Coalesce writes: uvicorn writes head and body of an answer separately, each a system call that wakes the client."""

from __future__ import annotations

import asyncio
from typing import Any, Final

_COPIED: Final = 65_536
"""Size up to which copying costs less than another system call."""


class JoiningTransport(asyncio.Transport):
    """A transport that buffers writes until more arrive, or until the loop's next iteration.

    Args:
        transport: transport of a connection.
        loop: its event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport, self._loop = transport, loop
        self._held: Any = None
        self.is_closing = transport.is_closing  # type: ignore[method-assign] # asked for every request: without a call more

    def write(self, data: Any) -> None:
        """Write, or buffer until the next iteration."""
        held = self._held
        if held is None:
            self._held = data
            self._loop.call_soon(self._flush)
            return
        self._held = None
        if len(data) > _COPIED:
            self._transport.write(held)
            self._transport.write(data)
        else:
            self._transport.write(b"".join((held, data)))

    def _flush(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._transport.write(held)

    def close(self) -> None:
        """Write the buffer, then close."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close immediately."""
        self._held = None
        self._transport.abort()

    def pause_reading(self) -> None:
        """See the transport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See the transport."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See the transport."""
        return self._transport.get_extra_info(name, default)
