"""Environments: subclasses of :class:`Environment`, or specifications of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..spaces.errors import refuse


class Environment:
    """Base class of environments.

    A subclass has ``states``, ``actions``, ``reset`` and ``execute``, and if it likes ``max_episode_timesteps`` and
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
    """The limit that :meth:`create` was given."""

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
                ``environment`` or ``type``), a class, or an object, of Gymnasium too. Arguments given here win over
                those in a dictionary or a file.
            max_episode_timesteps: ``execute`` returns terminal 2 at this timestep of an episode, at most the
                environment's own limit; None leaves that one.
            remote: ``"multiprocessing"`` runs the environment in a process of its own.
            blocking: a Runner waits for this remote environment instead of looking after the others meanwhile.
            host: not supported.
            port: not supported.
            **kwargs: arguments of the environment.

        Returns:
            The environment itself; with a limit or ``remote`` one around it. The one around it ends episodes at the
            limit, checks what it is given and what it returns, and has the attributes of the one inside.

        Raises:
            TensorforceError: an argument is invalid, or the environment's states or actions are.
        """
        given = {"max_episode_timesteps": max_episode_timesteps, "remote": remote, "host": host, "port": port}
        given |= {"blocking": blocking or None}
        chosen = kwargs | {name: value for name, value in given.items() if value is not None}
        return _opens[0](environment, chosen)

    def states(self) -> dict[str, Any]:
        """The specification of states: ``dict(type="float", shape=(4,))``, or a dictionary of such ones."""
        self._lacks("states")

    def actions(self) -> dict[str, Any]:
        """The specification of actions: ``dict(type="int", num_values=2)``, or a dictionary of such ones."""
        self._lacks("actions")

    def max_episode_timesteps(self) -> int | None:
        """Timesteps after which an episode ends at the latest, as :meth:`create` was told; None: no limit."""
        return self._max_episode_timesteps

    def reset(self) -> Any:
        """Begin an episode.

        Returns:
            Its first states, nested as ``states()`` is. A dictionary may also have masks of int actions: bool arrays
            under ``<action>_mask``.
        """
        self._lacks("reset")

    def execute(self, actions: Any) -> tuple[Any, int, float]:
        """Act.

        Args:
            actions: nested as ``actions()`` is.

        Returns:
            The next states; terminal: False or 0 if the episode goes on, True or 1 if it has ended, 2 if it was cut
            off by a time limit; and the reward.
        """
        self._lacks("execute")

    def close(self) -> None:
        """Release whatever the environment holds."""

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
    """Decorates what ``Environment.create`` calls; it knows subclasses, and so imports this module."""
    _opens[:] = [function]
    return function
