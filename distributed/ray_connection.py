"""The connection to a Ray cluster: our own on this machine, or an existing one."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..core.errors import ArgumentError, ClusterError
from .events import NodeLostError
from .guardian import Guardian
from .settings import Settings

logger = logging.getLogger("axonrl")
_STORE: Final = 256 * 2**20
"""Bytes of shared memory; Ray's default is 30 % of the machine's."""
_TOKEN: Final = secrets.token_hex(32)
"""Environment of clusters this process starts; Ray reads it once per process."""
_CALLS: Final = "RAY_task_events_report_interval_ms"
_AUTH_MODE: Final = "RAY_AUTH_MODE"
_REACH_S: Final = 5.0


class DiskFullError(ClusterError):
    """Neither Ray's object store nor the disk beside it has room for an object."""

    def __init__(self) -> None:
        super().__init__(
            "Ray's object store is full, and so is the disk of the folder in which Ray puts what does not fit (it uses"
            " up to 95 %): free space there, choose another disk by TMPDIR, or lower queue, in_flight or prefetch of"
            " Cluster"
        )


@contextlib.contextmanager
def refusing_full_disk() -> Iterator[None]:
    """Turn Ray's error into :class:`DiskFullError`; also a decorator."""
    import ray

    try:
        yield
    except ray.exceptions.OutOfDiskError:
        raise DiskFullError from None


class Connection:
    """Starts a cluster or joins one; a cluster that this process has already joined is used as it is.

    Args:
        settings: how to connect.
        shards: number of replay shards.
        nbytes: size of an unroll.

    Raises:
        ArgumentError: Ray is not installed, ``address`` cannot be joined, or the cluster is too small.
        ClusterError: our own cluster does not start.
    """

    def __init__(self, settings: Settings, shards: int, nbytes: int = 0) -> None:
        try:
            import ray
        except ImportError as error:
            message = f"backend='ray' needs Ray ({error}): pip install 'axonrl[ray]', or use backend='inline'"
            raise ArgumentError(message, "Cluster.backend", settings.backend) from None
        self._guardian: Guardian | None = None
        self._env: dict[str, str | None] = {}
        self._ours = not ray.is_initialized()
        if not self._ours:
            logger.info("using the Ray cluster that this process has joined")
        elif settings.address is not None:
            self._join(settings.address)
        else:
            self._start(settings, shards)
        try:
            _refuse_small(settings, shards, nbytes)
        except BaseException:
            self.close()
            raise

    def _start(self, settings: Settings, shards: int) -> None:
        logger.info(
            "starting a Ray cluster on this machine for this run; to join an existing one, give its address:"
            " distributed.address, or Cluster(address='auto')"
        )
        if (scarce := settings.cpu_warning(shards, len(os.sched_getaffinity(0)))) is not None:
            logger.warning(scarce)
        self._set_own_environment()
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(_import_paths())}
        params = {"num_cpus": math.ceil(settings.cpus(shards)), "num_gpus": 0, "object_store_memory": _STORE}
        try:
            self._guardian = Guardian(params, env)
            _init(self._guardian.address)
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):
                raise
            raise ClusterError(f"cannot start a Ray cluster on this machine: {error}") from error

    def _join(self, address: str) -> None:
        """Join like ``ray.init``, but send a token to a cluster on this machine only if it requires one.

        Ray sends one to each cluster that it finds by ``"auto"``, and waits forever if that has no authentication.
        """
        from ray._private.services import get_ray_address_from_environment

        found: str = address
        try:
            if address == "auto":
                found = get_ray_address_from_environment(address, None)
            host, _, port = found.rpartition(":")
            if port.isdigit():  # Ray would wait forever
                socket.create_connection((host, int(port)), _REACH_S).close()
                self._authenticate(host, found)
            _init(found)
        except Exception as error:
            why = str(error).partition(". ")[0]  # the rest of Ray's message, on tokens, may not apply
            message = f"the Ray cluster at Cluster.address={address!r} cannot be joined: {why}\n{_token_advice()}"
            self._put_environment_back()
            raise ArgumentError(message, "Cluster.address", address) from error

    def _authenticate(self, host: str, address: str) -> None:
        """Let Ray send the existing token if the cluster requires one and the user has not decided about tokens.

        If the token is refused, or belongs to another machine, Ray's error comes at once.
        """
        if _AUTH_MODE in os.environ:
            return  # without a token, Ray's client would end this process
        import ray
        from ray._raylet import GcsClient  # type: ignore[attr-defined]

        try:
            GcsClient(address=address)
        except ray.exceptions.AuthenticationError:
            if _token_source() is None or not _is_here(host):
                raise
            self._set_environment({_AUTH_MODE: "token"})
            GcsClient(address=address)

    def _set_own_environment(self) -> None:
        """Set defaults for our own cluster, unless the user set these variables.

        No token, which Ray would write into the home folder; and no records of calls, of which Ray keeps the newest
        100,000 in memory: every unroll is one.
        """
        made = {} if _CALLS in os.environ else {_CALLS: "0"}
        if os.environ.get(_AUTH_MODE, "token") == "token" and _token_source() is None:
            made |= {_AUTH_MODE: "token", "RAY_AUTH_TOKEN": _TOKEN}
        self._set_environment(made)

    def _set_environment(self, made: Mapping[str, str]) -> None:
        for name, value in made.items():
            self._env[name] = os.environ.get(name)
            os.environ[name] = value
        _read_environment()

    @property
    def is_local(self) -> bool:
        """Did we start this cluster?"""
        return self._guardian is not None

    def processes(self) -> dict[str, int]:
        """Ids of the daemons of our own cluster, and of the guardian, by name."""
        return {} if self._guardian is None else {"guardian": self._guardian.pid, **self._guardian.daemons}

    @property
    def is_whole(self) -> bool:
        """Do all daemons of our own cluster run? Ray reports on other clusters."""
        return self._guardian is None or self._guardian.ended is None

    def check(self) -> None:
        """Raise ``NodeLostError`` if a daemon of our own cluster has ended.

        Ray silently ends this process when it requests an object and the raylet is gone; the guardian then reports it.
        """
        if self._guardian is not None and (message := self._guardian.ended_daemon()) is not None:
            raise NodeLostError(message)

    def close(self) -> None:
        """Leave a cluster that was joined; end one that was started."""
        import ray

        if self._ours:
            ray.shutdown()
        if self._guardian is not None:
            self._guardian.close()
            self._guardian = None
        self._put_environment_back()

    def _put_environment_back(self) -> None:
        for name, value in self._env.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self._env:
            _read_environment()
        self._env = {}


def _refuse_small(settings: Settings, shards: int, nbytes: int) -> None:
    """Raise if the cluster has no room for ``min_actors`` or for an unroll: waiting would never end."""
    import ray

    nodes: Any = ray.nodes  # untyped
    found = [node["Resources"] for node in nodes() if node["Alive"]]
    cpus, needed = sum(one.get("CPU", 0) for one in found), settings.min_actors * settings.actor_cpus
    if cpus < needed + shards * settings.shard_cpus:
        message = (
            f"Cluster.min_actors={settings.min_actors} actors of {settings.actor_cpus:g} processors and {shards} replay"
            f" shards of {settings.shard_cpus:g} need more than the {cpus:g} processors of the Ray cluster: lower"
            " min_actors, actor_cpus or shard_cpus, or add nodes first (those an autoscaler may add do not count)"
        )
        raise ArgumentError(message, "Cluster.min_actors", settings.min_actors)
    store = min((one.get("object_store_memory", 0) for one in found), default=0)
    if nbytes > store / 2:
        message = (
            f"an unroll of {settings.unroll} timesteps of {settings.envs_per_actor} environments takes {nbytes:,}"
            f" bytes, more than half of a node's object store ({int(store):,} bytes): lower"
            " Cluster.unroll or Cluster.envs_per_actor, or start Ray with a larger --object-store-memory"
        )
        raise ArgumentError(message, "Cluster.unroll", settings.unroll)


def _is_here(host: str) -> bool:
    """Is the host this machine? If so, a socket can be bound to it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as bound:
            bound.bind(address)
    except OSError:
        return False
    return True


def _token_advice() -> str:
    """Explain how a token may be the reason that a cluster cannot be joined."""
    source, mode = _token_source(), os.environ.get(_AUTH_MODE)
    wants = "A cluster with token authentication requires the token it was started with. "
    if source is None:
        places = "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH and ~/.ray/auth_token"
        return f"{wants}None was found in {places}; with {_AUTH_MODE}=token Ray sends one it finds"
    if mode == "token":
        return f"{wants}The token of {source} was sent"
    return f"{wants}The token of {source} was not sent: set {_AUTH_MODE}=token to send it to another machine"


def _token_source() -> str | None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        if os.environ.get(name):
            return name
    path = Path.home() / ".ray" / "auth_token"
    return str(path) if path.exists() else None


def _read_environment() -> None:
    """Let Ray read the token settings again, as ``ray.init`` does; it first read them when imported."""
    from ray._raylet import Config  # type: ignore[attr-defined]

    Config.initialize("")


def _init(address: str) -> None:
    """Call ``ray.init`` but keep our SIGTERM handler: Ray's would end the driver without a checkpoint."""
    import ray

    in_main = threading.current_thread() is threading.main_thread()
    before: Any = signal.getsignal(signal.SIGTERM) if in_main else None
    try:
        ray.init(address, namespace="axonrl", configure_logging=False, log_to_driver=False)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _import_paths() -> list[str]:
    """Paths the driver imports from, for the actors; Python's own library excluded."""
    library = Path(os.__file__).parent
    paths = [Path(path).resolve() for path in sys.path]
    return [str(path) for path in dict.fromkeys(paths) if path.is_dir() and library not in (path, *path.parents)]
