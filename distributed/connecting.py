"""The connection to a Ray cluster: one of our own on this machine, or one that is there."""

from __future__ import annotations

import logging
import math
import os
import secrets
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

from ..errors import ArgumentError, ClusterError
from .events import NodeLostError
from .guardian import Guardian
from .settings import Settings

logger = logging.getLogger("axonrl")
_STORE: Final = 256 * 2**20
"""Bytes of shared memory, of which Ray would take 30 % of the machine's."""
_TOKEN: Final = secrets.token_hex(32)
"""Of the clusters that this process starts: Ray reads it once in a process."""
_CALLS: Final = "RAY_task_events_report_interval_ms"
_REACH_S: Final = 5.0


class Connection:
    """Starts a cluster, or joins one; one that this process has joined before is used as it is.

    Args:
        settings: how.
        shards: how many replay shards there will be.
        nbytes: of a fragment.

    Raises:
        ArgumentError: Ray is not installed, or ``address`` cannot be joined, or the cluster is too small.
        ClusterError: a cluster of our own does not start.
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
            _join(settings.address)
        else:
            self._start(settings, shards)
        try:
            _refuse_small(settings, shards, nbytes)
        except BaseException:
            self.close()
            raise

    def _start(self, settings: Settings, shards: int) -> None:
        cpus = math.ceil(settings.actors * settings.actor_cpus + shards * settings.shard_cpus)
        there = len(os.sched_getaffinity(0))
        if cpus > there:
            logger.warning("actors and shards want %d processors, and there are %d: they share them", cpus, there)
        self._set_environment()
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(_import_paths())}
        params = {"num_cpus": cpus, "num_gpus": 0, "object_store_memory": _STORE}
        try:
            self._guardian = Guardian(params, env)
            _init(self._guardian.address)
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):
                raise
            raise ClusterError(f"no Ray cluster could be started on this machine: {error}") from error

    def _set_environment(self) -> None:
        """For this cluster alone, where the user has said nothing else.

        A token, which Ray would write into the home folder; and no notes of calls, of which Ray keeps the newest
        100,000 in its memory: every fragment is one.
        """
        made = {} if _CALLS in os.environ else {_CALLS: "0"}
        if os.environ.get("RAY_AUTH_MODE", "token") == "token" and _token_source() is None:
            made |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _TOKEN}
        for name, value in made.items():
            self._env[name] = os.environ.get(name)
            os.environ[name] = value
        _read_environment()

    @property
    def is_local(self) -> bool:
        """Is it a cluster of our own?"""
        return self._guardian is not None

    def processes(self) -> dict[str, int]:
        """Ray's daemons of a cluster of our own, and the guardian: ids by name."""
        return {} if self._guardian is None else {"guardian": self._guardian.pid, **self._guardian.daemons}

    @property
    def is_whole(self) -> bool:
        """Are the daemons of a cluster of our own there? Of others Ray tells."""
        return self._guardian is None or self._guardian.ended is None

    def check(self) -> None:
        """``NodeLostError`` if a daemon of a cluster of our own has ended.

        Ray ends this process, without a word, when it asks for an object and the raylet is gone; the guardian has that
        word then.
        """
        if self._guardian is not None and (message := self._guardian.heard()) is not None:
            raise NodeLostError(message)

    def close(self) -> None:
        """Leave a cluster that was joined; end one that was started."""
        import ray

        if self._ours:
            ray.shutdown()
        if self._guardian is not None:
            self._guardian.close()
            self._guardian = None
        for name, value in self._env.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self._env:
            _read_environment()
        self._env = {}


def _refuse_small(settings: Settings, shards: int, nbytes: int) -> None:
    """A cluster without room for ``min_actors``, or for a fragment: it would be waited for in vain."""
    import ray

    nodes: Any = ray.nodes  # without types
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
            f"a fragment of {settings.fragment} timesteps of {settings.envs_per_actor} environments has {nbytes:,}"
            f" bytes, and may have half of the {int(store):,} bytes of the object store of a node: lower"
            " Cluster.fragment or Cluster.envs_per_actor, or start Ray with a larger --object-store-memory"
        )
        raise ArgumentError(message, "Cluster.fragment", settings.fragment)


def _join(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        if port.isdigit():  # Ray itself would wait for ever
            socket.create_connection((host, int(port)), _REACH_S).close()
        _init(address)
    except Exception as error:
        token = _token_source() or "none was found"
        message = (
            f"the Ray cluster at Cluster.address={address!r} cannot be joined: {error}\n"
            "A cluster with token authentication wants the token it was started with. Ray takes it from the environment"
            " (RAY_AUTH_MODE=token with RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH), then from ~/.ray/auth_token; here:"
            f" {token}"
        )
        raise ArgumentError(message, "Cluster.address", address) from error


def _token_source() -> str | None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        if os.environ.get(name):
            return name
    path = Path.home() / ".ray" / "auth_token"
    return str(path) if path.exists() else None


def _read_environment() -> None:
    """Ray has read whether there are tokens when it was imported; let it do so again, as ``ray.init`` does."""
    from ray._raylet import Config  # type: ignore[attr-defined]

    Config.initialize("")


def _init(address: str) -> None:
    """``ray.init`` without what it does to the driver: its handler of SIGTERM would end it without a checkpoint."""
    import ray

    in_main = threading.current_thread() is threading.main_thread()
    before: Any = signal.getsignal(signal.SIGTERM) if in_main else None
    try:
        ray.init(address, namespace="axonrl", configure_logging=False, log_to_driver=False)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _import_paths() -> list[str]:
    """What the driver imports from, actors must: beside Python's own library."""
    library = Path(os.__file__).parent
    paths = [Path(path).resolve() for path in sys.path]
    return [str(path) for path in dict.fromkeys(paths) if path.is_dir() and library not in (path, *path.parents)]
