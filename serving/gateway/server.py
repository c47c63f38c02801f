"""Serving: uvicorn with uvloop in this process, from the first request to the last."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import uvicorn
import uvloop

from .. import logs
from ..logs import LOGGER
from ..refusals import RefusedError
from .edge import Edge
from .gateway import Gateway
from .protocol import Guard, GuardedConfig, GuardedProtocol
from .routes import METRICS
from .settings import SettingsError

_BACKLOG: Final = 2048
_REFRESH: Final = 4.0
"""Seconds between refreshes: changes by the command line take effect within 5 seconds, with one for the query."""
_NOTE, _TIDY, _DAY = 60.0, 3600.0, 86400.0


def serve(gateway: Gateway, *, during: AbstractAsyncContextManager[object] | None = None) -> int:
    """Serve until a signal arrives.

    The first line of output is printed when ``/readyz`` answers 200. At SIGTERM or SIGINT the server accepts no new
    connections and answers requests in progress, then this returns; at a second signal the process ends at once.

    Args:
        gateway: the configuration, accounts, workers, ...
        during: entered in the event loop before the first request, left after the last one: the pool's processes.

    Returns:
        The signal's number.

    Raises:
        SettingsError: the service cannot listen at the address, or use the certificate and its key.
        RefusedError: the database is down.
    """
    listen, metrics = gateway.settings.listen, gateway.settings.metrics.port
    _check_certificate(listen.tls_cert, listen.tls_key)
    with contextlib.ExitStack() as closing:
        bound = [closing.enter_context(listening(listen.host, listen.port))]
        if metrics is not None:
            bound.append(closing.enter_context(listening("127.0.0.1", metrics, "metrics.port")))
        closing.callback(logs.unconfigure, logs.configure(gateway.settings.log.level))
        return uvloop.run(_serve(gateway, bound, during))


def _check_certificate(cert: str | None, key: str | None) -> None:
    if cert is None or key is None:
        return
    try:
        for path in (cert, key):
            Path(path).read_bytes()
    except OSError as error:
        what = f"{error.filename}: the certificate or its key cannot be read: {error.strerror}"
        raise SettingsError(what, "listen.tls_cert") from None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")  # never prompt for one
    except OSError as error:
        what = f"{cert} and {key} must be a certificate and its key, in PEM and without a passphrase: {error}"
        raise SettingsError(what, "listen.tls_cert") from None


def listening(host: str, port: int, key: str = "listen.port") -> socket.socket:
    """A listening socket at an address; ``key``: the port's, for the error.

    Raises:
        SettingsError: the address is in use, or not this machine's.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "a part of the name is empty or too long"
        raise SettingsError(f"cannot listen at {host}: {why}", "listen.host") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        what = f"cannot listen at {host}, port {port}: {error.strerror}; choose another {key}"
        raise SettingsError(what, key) from None
    return bound


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handling."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


async def _serve(
    gateway: Gateway, bound: Sequence[socket.socket], during: AbstractAsyncContextManager[object] | None
) -> int:
    listen = gateway.settings.listen
    tls = {"ssl_certfile": listen.tls_cert, "ssl_keyfile": listen.tls_key}
    servers = [_Server(_config(gateway, Edge(gateway), **tls))]
    servers += [_Server(_config(gateway, Edge(gateway, METRICS))) for _ in bound[1:]]
    received: list[int] = []

    def stop(number: int) -> None:
        if received:  # no acknowledged step is lost
            logging.shutdown()
            os._exit(128 + number)
        received.append(number)
        gateway.stopping = servers[0].should_exit = True

    async with during if during is not None else contextlib.nullcontext():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        try:
            await gateway.start()
            await _run(servers, gateway, bound)
            await _note_last(gateway)
        finally:
            await gateway.record_unrecorded()
            gateway.threads.close()
    return received[0] if received else 0


async def _run(servers: Sequence[_Server], gateway: Gateway, bound: Sequence[socket.socket]) -> None:
    """Serve until the first server ends; the other one, if any, is for the metrics, on a loopback port."""
    first, *others = servers
    served = [asyncio.create_task(one.serve([at])) for one, at in zip(others, bound[1:], strict=True)]
    tasks = [*housekeeping(gateway), *served]
    tasks.append(asyncio.create_task(_announce(servers, gateway, bound[0])))
    try:
        await first.serve([bound[0]])
    finally:
        for one in others:
            one.should_exit = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _note_last(gateway: Gateway) -> None:
    """Store the uses of agents and tokens since they were last stored, while the workers still answer."""
    for problem in await asyncio.gather(gateway.note_used(), gateway.tokens.refresh(), return_exceptions=True):
        if problem is not None:
            LOGGER.warning("the last uses of agents or tokens are not stored: %s", problem)


async def _announce(servers: Sequence[_Server], gateway: Gateway, bound: socket.socket) -> None:
    """Print the address once the service is ready."""
    while not all(server.started for server in servers) or any(check != "ok" for check in gateway.health().values()):
        await asyncio.sleep(0.01)
    host, port = bound.getsockname()[:2]
    scheme = "https" if gateway.settings.listen.tls_cert is not None else "http"
    print(f"axonrl serving at {scheme}://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
    LOGGER.info("serving")


def _config(gateway: Gateway, app: Edge, **more: Any) -> GuardedConfig:
    settings = gateway.settings
    config = GuardedConfig(
        app,
        http=GuardedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.http.idle_seconds,  # type: ignore[arg-type] # a loop takes fractions too
        timeout_graceful_shutdown=settings.listen.grace / 2,  # type: ignore[arg-type]
        **more,
    )
    config.guard = Guard(settings, gateway.proxies, gateway.meters)
    return config


def housekeeping(gateway: Gateway) -> list[asyncio.Task[None]]:
    """Tasks that run until they are cancelled."""
    threads = gateway.threads
    jobs: list[tuple[float, Callable[[], Awaitable[object]]]] = [
        (_REFRESH, gateway.tokens.refresh),
        (_REFRESH, gateway.finish_removals),
        (_NOTE, gateway.note_used),
        (_NOTE, gateway.record_unrecorded),
        (_TIDY, lambda: threads.call(gateway.idempotency.tidy)),
        (_DAY, lambda: threads.call(gateway.accounts.tidy)),
        (_DAY, lambda: threads.call(gateway.audit.prune)),
    ]
    return [asyncio.create_task(_repeat(seconds, job)) for seconds, job in jobs]


async def _repeat(seconds: float, job: Callable[[], Awaitable[object]]) -> None:
    """Start a job every ``seconds``, however long it takes; one that takes longer starts again at once.

    The first time is at most a minute from now: a service that is restarted each night has daily jobs, too.
    """
    loop = asyncio.get_running_loop()
    begins = loop.time() + min(seconds, _NOTE) - seconds
    while True:
        begins = max(begins + seconds, loop.time())
        await asyncio.sleep(begins - loop.time())
        try:
            await job()
        except RefusedError as problem:
            LOGGER.warning("will try again in %g seconds: %s", seconds, problem.detail)
        except Exception:
            LOGGER.exception("will try again in %g seconds", seconds)
