"""Environments: subclasses of :class:`Environment`, or specifications of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..spaces import Space, space_of
from ..spaces.readers import read_rewards, read_terminals
from ..utils.rlgraph_errors import integer, refuse

Self = TypeVar("Self", bound="Environment")


class Environment:
    """Base class of environments.

    A subclass defines ``reset`` and ``step``, and optionally ``seed``, ``render`` and ``terminate``::

        class Corridor(Environment):
            def __init__(self):
                super().__init__(state_space=IntBox(7), action_space=IntBox(2))

            def reset(self):
                self.cell = 0
                return self.cell

            def step(self, actions):
                self.cell = max(0, self.cell + (1 if actions == 1 else -1))
                return self.cell, float(self.cell == 6), self.cell == 6, {}

    Args:
        state_space: space of the states: a Space, its specification or a space of Gymnasium.
        action_space: space of the actions, in the same forms.
        seed: passed to :meth:`seed`; None: :meth:`seed` is not called.

    Raises:
        RLGraphError: a space is invalid.
    """

    def __init__(self, state_space: Any, action_space: Any, seed: int | None = None) -> None:
        name = type(self).__name__
        self.state_space: Space = space_of(f"{name}: state_space", state_space)
        self.action_space: Space = space_of(f"{name}: action_space", action_space)
        self._env_rng = np.random.default_rng()  # of the environments here
        if seed is not None:
            self.seed(seed)

    @classmethod
    def from_spec(cls: type[Self], spec: Any = None, **kwargs: Any) -> Self:
        """Create an environment from its specification.

        Args:
            spec: a dictionary with ``type``: ``openai`` (also ``openai_gym``, ``openai_gym_env``), ``grid_world``,
                ``random`` (``random_env``), ``sequential_vector_env``, a class, ``"module.Class"`` or a callable; case,
                ``-`` and ``_`` do not matter. Or such a name, class or callable alone, a JSON or YAML file, or an
                environment, also one of Gymnasium, which is returned as it is.
            **kwargs: arguments of the environment, which override those of the dictionary.

        Raises:
            RLGraphError: the specification is not of an environment, or not of the class that this is called on.
        """
        made: Any = _opens[0](cls, spec, kwargs)
        return made  # type: ignore[no-any-return]

    def reset(self) -> Any:
        """Begin an episode and return its first state."""
        refuse(f"{type(self).__name__}.reset", "is missing: a subclass of Environment must define it")

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any]:
        """Act.

        Returns:
            The next state, even if the episode ended; the reward; terminal: has the episode ended or been cut by a
            time limit; and the info dictionary: ``info["truncated"]`` is True if it was only cut.
        """
        refuse(f"{type(self).__name__}.step", "is missing: a subclass of Environment must define it")

    def step_flow(self, actions: Any) -> tuple[Any, Any, Any]:
        """Act, and begin a new episode if one ends; returns state (the new episode's then), reward and terminal."""
        state, reward, terminal, _ = self.step(actions)
        return (self.reset() if terminal else state), reward, terminal

    def seed(self, seed: int | None = None) -> Any:
        """Seed the environment, with effect from the next reset at the latest.

        Args:
            seed: an integer of at least 0; None: a random one.

        Returns:
            The seed.
        """
        seed = read_seed(type(self).__name__, seed)
        self._env_rng = np.random.default_rng(seed)
        return seed

    def render(self) -> None:
        """Render the environment, if it can be rendered."""

    def terminate(self) -> None:
        """Release the environment's resources."""

    def __str__(self) -> str:
        return type(self).__name__


class Stepped(NamedTuple):
    """Result of a step."""

    state: Any
    """The next state as returned by the environment; at the end of an episode its last one, not the next episode's."""
    reward: float
    """The sum over the frames."""
    terminal: bool
    """The episode ended, or was cut."""
    truncated: bool
    """The episode was only cut by a time limit: the last state has a value."""
    frames: int


def step_environment(environment: Environment, actions: Any, frames: int = 1) -> Stepped:
    """One step of any environment: repeat the action ``frames`` times, or until the episode ends.

    Raises:
        RLGraphError: the environment did not return state, reward, terminal and info, the reward is not a finite
            number, or terminal is neither True nor False.
    """
    where, total, ended, done = f"{type(environment).__name__}.step", 0.0, False, 0
    while done < frames and not ended:
        told = environment.step(actions)
        if not isinstance(told, tuple | list) or len(told) != 4:
            refuse(where, "must return state, reward, terminal and info", told)
        state, reward, terminal, info = told
        if type(terminal) not in (bool, np.bool_):
            terminal = read_terminals(f"{where}: terminal", terminal, None)[0]
        if type(reward) is not np.float32 or not np.isfinite(reward):
            reward = read_rewards(f"{where}: reward", reward, None)[0]
        total, ended, done = total + float(reward), bool(terminal), done + 1
    cut = ended and isinstance(info, Mapping) and bool(info.get("truncated", False))
    return Stepped(state, total, ended, cut, done)


def read_seed(name: str, seed: int | None) -> int:
    """The given seed, or a random one."""
    return secrets.randbits(31) if seed is None else integer(f"{name}: seed", seed, at_least=0)


Opener: TypeAlias = Callable[[type[Environment], Any, Mapping[str, Any]], Environment]
_opens: list[Opener] = []


def opens(function: Opener) -> Opener:
    """Register the function behind ``Environment.from_spec``, whose module imports this one."""
    _opens[:] = [function]
    return function
