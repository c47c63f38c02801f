"""Checks of what a user gave, which raise the error of one interface."""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

from ...core import checks
from ...core.errors import ArgumentError

_unknown: Final[contextvars.ContextVar[list[ArgumentError] | None]] = contextvars.ContextVar("unknown", default=None)
"""Errors of unknown names that are gathered, to be told at once; None: each is raised where it is found."""


class Refusals:
    """Checks whose errors are of one class.

    Args:
        error: a subclass of ``ArgumentError``.
    """

    def __init__(self, error: type[ArgumentError]) -> None:
        self._error = error

    def refuse(self, argument: str, problem: str, value: object = None) -> NoReturn:
        """Raise the error of one argument: ``"Agent.act: states has"`` comes of ``("Agent.act: states", "has")``."""
        raise self._error(f"{argument} {problem}", argument, value)

    @contextlib.contextmanager
    def translate_errors(self, where: str = "") -> Iterator[None]:
        """Within it an ``ArgumentError`` of axonrl becomes one of this class.

        Its message and its ``argument`` begin with ``where``.
        """
        try:
            yield
        except self._error:
            raise
        except ArgumentError as error:
            prefix = f"{where}: " if where else ""
            raise self._error(f"{prefix}{error}", f"{prefix}{error.argument}", error.value) from None

    def choice(self, name: str, value: Any, choices: Iterable[str]) -> str:
        """One of a set of names; the message suggests the nearest."""
        with self.translate_errors():
            return checks.choice(name, value, choices)

    def number(
        self,
        name: str,
        value: Any,
        *,
        above: float = -math.inf,
        at_least: float = -math.inf,
        at_most: float = math.inf,
    ) -> float:
        """A finite number within bounds, as ``checks.number`` has it."""
        with self.translate_errors():
            return checks.number(name, value, above=above, at_least=at_least, at_most=at_most)

    def integer(self, name: str, value: Any, *, at_least: int) -> int:
        """An integer of at least ``at_least``."""
        with self.translate_errors():
            return checks.integer(name, value, at_least=at_least)

    def flag(self, name: str, value: Any) -> bool:
        """True or False."""
        with self.translate_errors():
            return checks.flag(name, value)

    def known(self, where: str, given: Iterable[str], allowed: Iterable[str], *, what: str = "argument") -> None:
        """Refuse names that are not allowed, all of them at once, each with the nearest one that is."""
        allowed = list(allowed)
        found = [name for name in given if name not in allowed]
        if not found:
            return
        names = ", ".join(f"{name!r}{checks.did_you_mean(name, allowed)}" for name in found)
        takes = f"it takes {', '.join(allowed) or 'none'}"
        error = self._error(f"{where} takes no {what} {names}; {takes}", str(found[0]))
        if (unknown := _unknown.get()) is None:
            raise error
        unknown.append(error)

    @contextlib.contextmanager
    def unknown_at_once(self) -> Iterator[None]:
        """Within it the unknown names of all parts are gathered, and told in one error at the end.

        So is any other error that follows the first of them: a misspelt name is also a missing one.
        """
        unknown: list[ArgumentError] = []
        token = _unknown.set(unknown)
        try:
            yield
        except Exception:
            if not unknown:
                raise
        finally:
            _unknown.reset(token)
        if unknown:
            raise self._error("\n".join(str(error) for error in unknown), unknown[0].argument)

    def mapping(self, where: str, value: Any) -> Mapping[str, Any]:
        """A dictionary whose keys are strings."""
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self.refuse(where, f"must be a dictionary with strings as keys, got {value!r}", value)
        return value


_plain = Refusals(ArgumentError)
refuse, choice, number, integer = _plain.refuse, _plain.choice, _plain.number, _plain.integer
flag, known, mapping = _plain.flag, _plain.known, _plain.mapping
"""For what the interfaces share: plain errors, which each interface turns into its own with ``translate_errors``."""
