"""AsyncRemoteAgent: RemoteAgent's operations over asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .address import Address
from .connections import tls_context
from .credentials import Secret
from .experience import Experience
from .logins import Verify
from .messages import Lost, Request, Response, Result, make_response

if TYPE_CHECKING:
    import aiohttp


class AsyncRemoteAgent(Experience):
    """A ``RemoteAgent`` with awaitable methods; properties that ask the service are methods here.

    It belongs to one event loop. Username and password log in with the first request. It needs aiohttp, which axonrl
    requires. The arguments are those of ``RemoteAgent``.

    Raises:
        ValueError: no credentials, an invalid argument, or a keyword that looks like a credential.
    """

    _awaits = True

    def _connect(self, where: Address, verify: Verify) -> AsyncConnections:
        self._connections, self._turns = AsyncConnections(where, verify), asyncio.Lock()
        return self._connections

    async def close(self) -> None:
        """Close the connections, and log out; see ``RemoteAgent.close``."""
        await asyncio.to_thread(self._session.leave)
        await self._connections.close()

    async def __aenter__(self) -> AsyncRemoteAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _carry_out(self, call: Callable[[], Coroutine[Any, Any, Result]], in_order: bool) -> Result:
        if not in_order:
            return await call()
        async with self._turns:
            return await call()


class AsyncConnections:
    """Connections over aiohttp; see :class:`.retries.Transport`.

    Args:
        address: address of the service.
        verify: see ``RemoteAgent``.
    """

    def __init__(self, address: Address, verify: Verify) -> None:
        self.address = address
        self._tls = tls_context(verify) if address.secure else True
        self._session: aiohttp.ClientSession | None = None

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[[], Result]) -> Result:
        """Call a function that blocks, in a thread."""
        return await asyncio.to_thread(function)

    async def send(self, request: Request, token: Secret | None, timeout: float) -> Response | Lost:
        """Send a request once."""
        import aiohttp  # only needed here

        try:
            sent = self._open_session().request(
                request.method,
                self.address.url + request.path,
                data=request.body,
                headers={"Accept-Encoding": "identity", **request.headers(token)},
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout),
            )
            async with sent as response:
                return make_response(response.status, await response.read(), response.headers.get)
        except aiohttp.ClientConnectorCertificateError as error:
            return Lost("certificate", str(error), for_good=True)
        except asyncio.TimeoutError:  # not TimeoutError in Python 3.10
            return Lost("timeout", f"no answer within {timeout:g} seconds")
        except (aiohttp.ClientError, OSError) as error:
            return Lost("unreachable", f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls, limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session
