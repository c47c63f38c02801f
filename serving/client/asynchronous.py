"""AsyncRemoteAgent: RemoteAgent's requests over asyncio."""

from __future__ import annotations

import asyncio
import os
import random
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import values
from .connections import tls_context
from .credentials import Secret
from .errors import AuthenticationError, ServiceError
from .experience import Action
from .messages import Flow, Lost, Request, Response, advance, conclude, seconds
from .retries import attempts
from .session import Settings
from .state import EncodedAgentState
from .values import Size

if TYPE_CHECKING:
    import aiohttp

_Result = TypeVar("_Result")


class AsyncRemoteAgent:
    """A ``RemoteAgent`` with awaitable methods; properties that ask the service are methods here.

    It belongs to one event loop.

    Username and password log in with the first request. It needs aiohttp, which axonrl requires.

    Args:
        agent_name: see ``RemoteAgent``; so for all others.
        description: for :meth:`create_agent`.
        access_token: a token of the service.
        username: name to log in with.
        password: password to log in with.
        url: URL of the service.
        timeout: seconds that an attempt may take.
        retry_deadline: seconds after which no further attempt begins.
        environment: the stream of experience that steps belong to.
        verify: whether to check the service's certificate.
        hyperparameters: for :meth:`create_agent`.

    Raises:
        ValueError: no credentials, an invalid argument, or a keyword that looks like a credential.
    """

    def __init__(
        self,
        agent_name: str,
        description: str | None = "",
        *,
        access_token: str | None = None,
        username: str | None = None,
        password: str | None = None,
        url: str | None = None,
        timeout: float = 10.0,
        retry_deadline: float = 30.0,
        environment: str | None = None,
        verify: bool | str | os.PathLike[str] = True,
        **hyperparameters: Any,
    ) -> None:
        self._settings = Settings(
            agent_name, description, url, timeout, retry_deadline, environment, verify, hyperparameters
        )
        self._calls = self._settings.calls
        self._token, self._login = self._settings.credentials(access_token, username, password)
        self._turns = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    @property
    def agent_name(self) -> str:
        """Name of the agent in the service."""
        return self._calls.name

    @property
    def description(self) -> str:
        """Description for :meth:`create_agent`."""
        return self._calls.description

    @property
    def environment(self) -> str:
        """The stream of experience that steps belong to."""
        return self._calls.environment

    @property
    def url(self) -> str:
        """URL of the service, with ``/api/v1``."""
        return self._settings.address.url

    async def create_agent(
        self,
        state_size: Size | None = None,
        action_size: Size | None = None,
        agent_model: str | None = None,
        active: bool = True,
        *,
        obs_size: Size | None = None,
        discrete: bool | None = None,
        action_low: Any = None,
        action_high: Any = None,
        observation_space: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Create the agent; when this returns, it acts. See ``RemoteAgent.create_agent``; actions are in 0 .. 1."""
        state_size = values.either(state_size, obs_size, "state_size", "obs_size")
        settings = {"discrete": discrete, "observation_space": observation_space}
        settings |= {"action_low": action_low, "action_high": action_high}
        return await self._do(self._calls.create(state_size, action_size, agent_model, active, settings))

    async def remove(self, *, agent_name: str, quite: bool = True) -> bool:
        """Delete the agent; see ``RemoteAgent.remove``."""
        return await self._do(self._calls.remove(agent_name, quite))

    async def exists(self) -> bool:
        """Whether the agent exists."""
        return await self._do(self._calls.exists())

    async def is_active(self) -> bool:
        """Whether it acts and learns."""
        return await self._do(self._calls.is_active())

    async def activate(self) -> None:
        """Let it act and learn."""
        await self._do(self._calls.set_active(True))

    async def deactivate(self) -> None:
        """Deactivate the agent."""
        await self._do(self._calls.set_active(False))

    async def hparams(self) -> dict[str, int | float | str]:
        """Hyperparameters and sizes."""
        return await self._do(self._calls.hparams())

    async def info(self) -> dict[str, Any]:
        """The agent object."""
        return await self._do(self._calls.info())

    async def sync(self) -> None:
        """Update model, sizes and hyperparameters from the service."""
        await self._do(self._calls.sync())

    async def state_size(self) -> Size:
        """Number of numbers in an observation, or its shape; None for a Dict of observations."""
        size: Size = await self._do(self._calls.fact("state_size"))
        return size

    obs_size = state_size

    async def action_size(self) -> Size:
        """Number of actions, or of numbers in an action, or their shape."""
        size: Size = await self._do(self._calls.fact("action_size"))
        return size

    async def agent_model(self) -> str:
        """Model, such as ``"dqn"``."""
        model: str = await self._do(self._calls.fact("model"))
        return model

    async def discrete(self) -> bool:
        """Whether actions are integers."""
        discrete: bool = await self._do(self._calls.fact("discrete"))
        return discrete

    async def loss(self) -> dict[str, Any]:
        """Loss and metrics of the last update."""
        return await self._do(self._calls.loss())

    async def get_state(self) -> EncodedAgentState:
        """Download everything that the agent has learned."""
        return await self._do(self._calls.get_state())

    async def upload_state(self, state: EncodedAgentState) -> bool:
        """Replace the agent's state by another agent's."""
        return await self._do(self._calls.upload_state(state))

    async def episodes(self, last: int = 100) -> list[dict[str, Any]]:
        """The last finished episodes."""
        return await self._do(self._calls.episodes(last))

    async def act(self, state: Any = None, noise: float = 0, *, explore: bool | None = None, obs: Any = None) -> Action:
        """Choose an action; see ``RemoteAgent.act``."""
        return await self._in_order(self._calls.act(values.either(state, obs, "state", "obs"), noise, explore))

    async def step(
        self,
        state: Any = None,
        action: Any = None,
        reward: float | None = None,
        next_state: Any = None,
        done: bool | None = None,
        *,
        truncated: bool = False,
        key: str | None = None,
        obs: Any = None,
        next_obs: Any = None,
    ) -> bool:
        """Report the outcome of an action; see ``RemoteAgent.step``."""
        before = values.either(state, obs, "state", "obs")
        after = values.either(next_state, next_obs, "next_state", "next_obs")
        return await self._in_order(self._calls.step(before, action, reward, after, done, truncated, key))

    async def act_batch(
        self, states: Any, noise: float = 0, *, explore: bool | None = None, environments: Any = None
    ) -> list[Action]:
        """Choose actions for up to 1,000 observations."""
        return await self._in_order(self._calls.act_batch(states, noise, explore, environments))

    async def step_batch(
        self,
        states: Any,
        actions: Any,
        rewards: Any,
        next_states: Any,
        dones: Any,
        *,
        truncated: Any = None,
        environments: Any = None,
        key: str | None = None,
    ) -> int:
        """Report up to 1,000 steps, all or none."""
        flow = self._calls.step_batch(states, actions, rewards, next_states, dones, truncated, environments, key)
        return await self._in_order(flow)

    async def end_episode(self) -> None:
        """Report that the environment was reset without ``done``."""
        await self._in_order(self._calls.end_episode())

    async def get_access_token(
        self, username: str | None = None, password: str | None = None, access_token: str | None = None
    ) -> str:
        """A token; see ``RemoteAgent.get_access_token``."""
        return (await asyncio.to_thread(self._settings.new_token, access_token, username, password)).reveal()

    async def close(self) -> None:
        """Close the connections, and log out; see ``RemoteAgent.close``."""
        if self._login is not None:
            self._token = None
            await asyncio.to_thread(self._login.leave, self, self._settings.timeout)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> AsyncRemoteAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncRemoteAgent({self._calls.name!r}, url={self.url!r})"

    # -- input and output ---------------------------------------------------------------------------------------------

    async def _in_order(self, flow: Flow[_Result]) -> _Result:
        async with self._turns:
            return await self._do(flow)

    async def _do(self, flow: Flow[_Result]) -> _Result:
        """Carry out a flow's requests; returns or raises its result."""
        found = advance(flow)
        while isinstance(found, Request):
            found = advance(flow, await self._exchange(found))
        result: _Result = found.value
        return result

    async def _exchange(self, request: Request) -> Response | ServiceError:
        """Outcome of a request; with a new token if the first has expired."""
        login, token = self._login, self._token
        if login is None:
            return await self._repeated(request, token)
        limits = self._settings.timeout, self._settings.retry_deadline
        try:
            if token is None:
                token = self._token = await asyncio.to_thread(login.join, self, *limits)
            outcome = await self._repeated(request, token)
            if isinstance(outcome, AuthenticationError):
                other = await asyncio.to_thread(login.instead_of, token, outcome, self, *limits)
                if other is not None:
                    self._token = other
                    outcome = await self._repeated(request, other)
        except ServiceError as error:  # from a login
            return error
        return outcome

    async def _repeated(self, request: Request, token: Secret | None) -> Response | ServiceError:
        """Outcome of a request, with retries."""
        if request.after:
            await asyncio.sleep(request.after)
        tries = attempts(self._settings.retry_deadline, time.monotonic, random.random)
        wait = next(tries)
        while True:
            if wait:
                await asyncio.sleep(wait)
            try:
                wait = tries.send(await self._send(request, token))
            except StopIteration as end:
                return conclude(request, end.value, () if token is None else (token.reveal(),))

    async def _send(self, request: Request, token: Secret | None) -> Response | Lost:
        """The answer with any status, or the reason why there is none."""
        import aiohttp  # only needed here

        limit = self._settings.timeout_of(request)
        headers = {"Accept-Encoding": "identity", **request.headers(token)}
        try:
            sent = self._opened().request(
                request.method,
                self.url + request.path,
                data=request.body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=limit),
            )
            async with sent as response:
                body = await response.read()
        except aiohttp.ClientConnectorCertificateError as error:
            return Lost("certificate", str(error), for_good=True)
        except asyncio.TimeoutError:  # not TimeoutError in Python 3.10
            return Lost("timeout", f"no answer within {limit:g} seconds")
        except (aiohttp.ClientError, OSError) as error:
            return Lost("unreachable", f"{type(error).__name__}: {error}")
        header = response.headers.get
        return Response(
            response.status, body, header("X-Request-Id"), seconds(header("Retry-After")), header("Location")
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            verify = self._settings.verify
            tls = tls_context(verify) if self._settings.address.secure else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls, limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session
