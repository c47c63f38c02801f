"""RemoteAgent: an agent hosted by a service."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from .address import Address
from .calls import random_environment
from .connections import Connections
from .experience import Experience
from .logins import Verify
from .messages import Result
from .retries import run

_Self = TypeVar("_Self", bound="RemoteAgent")


class RemoteAgent(Experience):
    """An agent that learns in a service, with its environment here.

    One object is one environment: its calls of ``act`` and ``step`` are made one at a time, even by several threads;
    use one object per environment. A request whose answer is lost is repeated, and applied only once. Each method
    documents its own errors; every method may raise ``AuthenticationError``, ``NotFound``, ``RateLimited`` and
    ``ServiceUnavailable``. Values that are out of range are refused by the service: nothing changes.

    Methods without arguments that read something are properties: ``exists``, ``is_active``, ``hparams``,
    ``state_size``, ``obs_size``, ``action_size``, ``agent_model``, ``discrete`` and ``loss``.

    A pickled object holds no credentials; unpickled, it takes them from the environment variables.

    Args:
        agent_name: name in the service, unique in the account.
        description: for :meth:`create_agent`.
        access_token: a token of the service.
        username: name to log in with, at construction, and again when the token has expired. Objects of one process
            with the same service, name and password share one login.
        password: password to log in with.
        url: URL of the service; else ``AXONRL_URL``, ``AGENTS_BAR_URL``, ``http://127.0.0.1:8000``.
        timeout: seconds that an attempt may take; :meth:`create_agent` and states may take 120.
        retry_deadline: seconds after which no further attempt begins.
        environment: the stream of experience that steps belong to; a random one by default.
        verify: whether to check the service's certificate; a path gives own authorities.
        hyperparameters: all other keywords, for :meth:`create_agent`; and ``state_size`` (or ``obs_size``),
            ``action_size`` and ``agent_model``, which :meth:`create_agent` then does not need, and which are known
            without asking.

    Raises:
        ValueError: no credentials, an invalid argument, or a keyword that looks like a credential.
        AuthenticationError: username and password were refused.
        ServiceUnavailable: the service could not be reached to log in.
    """

    def _connect(self, where: Address, verify: Verify) -> Connections:
        self._connections = Connections(where, verify)
        self._turns, self._process = threading.Lock(), os.getpid()
        return self._connections

    def close(self) -> None:
        """Close the connections, and log out, unless another object of this process uses the same login.

        The agent stays; a later call connects and logs in again.
        """
        self._session.leave()
        self._connections.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _carry_out(self, call: Callable[[], Coroutine[Any, Any, Result]], in_order: bool) -> Result:
        if not in_order:
            return run(call())
        if self._process != os.getpid():  # a fork: another environment, and a lock that its parent may hold
            self._turns, self._process = threading.Lock(), os.getpid()
            if self._arguments["environment"] is None:
                self._environment = random_environment()
        with self._turns:
            return run(call())
