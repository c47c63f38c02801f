"""Environments: subclasses of :class:`Environment`, or specifications of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..spaces.errors import refuse


class Environment:
    """Base class of environments.

    A subclass defines ``states``, ``actions``, ``reset`` and ``execute``, and optionally ``max_episode_timesteps`` and
    ``close``::

        class Corridor(Environment):
            def states(self):
                return dict(type="int", shape=(), num_values=7)

            def actions(self):
                return dict(type="int", num_values=2)

            def reset(self):
                self.cell = 0
                return self.cell

            def execute(self, actions):
                self.cell = max(0, self.cell + (1 if actions == 1 else -1))
                return self.cell, self.cell == 6, float(self.cell == 6)
    """

    _max_episode_timesteps: int | None = None
    """The limit passed to :meth:`create`."""

    @staticmethod
    def create(
        environment: Any = None,
        max_episode_timesteps: int | None = None,
        remote: str | None = None,
        blocking: bool = False,
        host: Any = None,
        port: Any = None,
        **kwargs: Any,
    ) -> Environment:
        """Create an environment from its specification.

        Args:
            environment: ``"gym"`` (also ``"openai_gym"``, ``"default"`` and None) with a ``level``; any other string is
                a JSON file, ``"module.Class"``, or a level of Gymnasium; or a dictionary (its name under
                ``environment`` or ``type``), a class, or an object, also of Gymnasium. Arguments given here override
                those in a dictionary or a file.
            max_episode_timesteps: ``execute`` returns terminal 2 at this timestep of an episode; at most the
                environment's own limit, which is also the default.
            remote: ``"multiprocessing"`` runs the environment in its own process.
            blocking: a Runner waits for this remote environment before it steps others.
            host: not supported.
            port: not supported.
            **kwargs: arguments of the environment.

        Returns:
            The environment itself; with a limit or ``remote`` a wrapper, which ends episodes at the limit and checks
            actions and returned values. Without ``remote`` it has the attributes of the wrapped environment.

        Raises:
            TensorforceError: an argument, or the environment's states or actions, are invalid.
        """
        given = {"max_episode_timesteps": max_episode_timesteps, "remote": remote, "host": host, "port": port}
        given |= {"blocking": blocking or None}
        chosen = kwargs | {name: value for name, value in given.items() if value is not None}
        return _opens[0](environment, chosen)

    def states(self) -> dict[str, Any]:
        """The specification of states: ``dict(type="float", shape=(4,))``, or a dictionary of specifications."""
        self._lacks("states")

    def actions(self) -> dict[str, Any]:
        """The specification of actions: ``dict(type="int", num_values=2)``, or a dictionary of specifications."""
        self._lacks("actions")

    def max_episode_timesteps(self) -> int | None:
        """Most timesteps of an episode, as passed to :meth:`create`; None: no limit."""
        return self._max_episode_timesteps

    def reset(self) -> Any:
        """Begin an episode.

        Returns:
            The first states, nested as ``states()``. A dictionary may also have masks of int actions: bool arrays under
            ``<action>_mask``.
        """
        self._lacks("reset")

    def execute(self, actions: Any) -> tuple[Any, int, float]:
        """Act.

        Args:
            actions: nested as ``actions()``.

        Returns:
            The next states; terminal: False or 0 if the episode continues, True or 1 if it has ended, 2 if it was cut
            off by a time limit; and the reward.
        """
        self._lacks("execute")

    def close(self) -> None:
        """Release the environment's resources."""

    def __str__(self) -> str:
        return type(self).__name__

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _lacks(self, method: str) -> NoReturn:
        refuse(f"{type(self).__name__}.{method}", "is missing: a subclass of Environment must define it", None)


_opens: list[Callable[[Any, Mapping[str, Any]], Environment]] = []


def opens(function: Callable[[Any, Mapping[str, Any]], Environment]) -> Callable[[Any, Mapping[str, Any]], Environment]:
    """Register the function behind ``Environment.create``, whose module imports this one."""
    _opens[:] = [function]
    return function
