"""AsyncRemoteAgent: RemoteAgent's operations over asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .connections import tls_context
from .experience import Experience
from .flows import Attempt, Flow, Steps
from .messages import Lost, Response, Result, answered

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

    def _open(self) -> None:
        self._turns = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections, and log out; see ``RemoteAgent.close``."""
        if self._login is not None:
            self._token = None
            await asyncio.to_thread(self._login.leave, self, self._timeout)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> AsyncRemoteAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _carry_out(self, flow: Flow[Result], in_order: bool) -> Result:
        if not in_order:
            return await self._run(self._steps(flow))
        async with self._turns:
            return await self._run(self._steps(flow))

    async def _run(self, steps: Steps[Result]) -> Result:
        """Carry out the steps of a call; returns or raises its result."""
        outcome: Any = None
        try:
            while True:
                step = steps.send(outcome)
                if isinstance(step, Attempt):
                    outcome = await self._send(step)
                elif callable(step):
                    outcome = await asyncio.to_thread(step)
                else:
                    await asyncio.sleep(step)
        except StopIteration as end:
            result: Result = end.value
            return result

    async def _send(self, attempt: Attempt) -> Response | Lost:
        """The answer with any status, or the reason why there is none."""
        import aiohttp  # only needed here

        request = attempt.request
        try:
            sent = self._opened().request(
                request.method,
                self.url + request.path,
                data=request.body,
                headers={"Accept-Encoding": "identity", **request.headers(attempt.token)},
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=attempt.timeout),
            )
            async with sent as response:
                return answered(response.status, await response.read(), response.headers.get)
        except aiohttp.ClientConnectorCertificateError as error:
            return Lost("certificate", str(error), for_good=True)
        except asyncio.TimeoutError:  # not TimeoutError in Python 3.10
            return Lost("timeout", f"no answer within {attempt.timeout:g} seconds")
        except (aiohttp.ClientError, OSError) as error:
            return Lost("unreachable", f"{type(error).__name__}: {error}")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            tls = tls_context(self._verify) if self._address.secure else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls, limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session
