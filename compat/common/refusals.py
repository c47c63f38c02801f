"""Checks of user input that raise an interface's own error."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

import numpy as np

from ...core import checks
from ...core.errors import ArgumentError
from ...core.protocols import Array

Params = ParamSpec("Params")
Result = TypeVar("Result")
_unknown: Final[contextvars.ContextVar[list[ArgumentError] | None]] = contextvars.ContextVar("unknown", default=None)
"""Collected errors of unknown names, to be raised together; None: each is raised where it is found."""


class Refusals:
    """Checks that raise errors of one class.

    Args:
        error: a subclass of ``ArgumentError``.
    """

    def __init__(self, error: type[ArgumentError]) -> None:
        self._error = error
        self.choice = self._translate(checks.choice)
        self.number = self._translate(checks.number)
        self.integer = self._translate(checks.integer)
        self.flag = self._translate(checks.flag)

    def refuse(self, argument: str, problem: str, value: object = None) -> NoReturn:
        """Raise the error of one argument; its message is the argument followed by the problem."""
        raise self._error(f"{argument} {problem}", argument, value)

    def as_array(self, argument: str, given: Any) -> Array:
        """Convert a value to one array."""
        try:
            return np.asarray(given)
        except (ValueError, TypeError):
            problem = f"must be one array, got values of different shapes: {checks.shortened(given)}"
            self.refuse(argument, problem, given)

    @contextlib.contextmanager
    def translate_errors(self, where: str = "") -> Iterator[None]:
        """Context that turns an ``ArgumentError`` of axonrl into one of this class.

        ``where`` is put in front of its message and its ``argument``.
        """
        try:
            yield
        except self._error:
            raise
        except ArgumentError as error:
            prefix = f"{where}: " if where else ""
            raise self._error(f"{prefix}{error}", f"{prefix}{error.argument}", error.value) from None

    def _translate(self, check: Callable[Params, Result]) -> Callable[Params, Result]:
        """One of axonrl's checks, raising errors of this class."""

        @functools.wraps(check)
        def translated(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            with self.translate_errors():
                return check(*args, **kwargs)

        return translated

    def refuse_unknown(
        self, where: str, given: Iterable[str], allowed: Iterable[str], *, what: str = "argument"
    ) -> None:
        """Refuse all names that are not allowed in one error, each with the nearest allowed name."""
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
        """Context that collects the unknown names of all parts, and raises one error with all of them at the end.

        Any other error after the first unknown name joins it: a misspelt name is also a missing one.
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
        """Check for a dictionary with strings as keys."""
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self.refuse(where, f"must be a dictionary with strings as keys, got {value!r}", value)
        return value


_plain = Refusals(ArgumentError)
choice, number, integer, flag = checks.choice, checks.number, checks.integer, checks.flag
refuse, refuse_unknown, mapping, as_array = _plain.refuse, _plain.refuse_unknown, _plain.mapping, _plain.as_array
"""Checks of shared code: each interface turns their plain errors into its own with ``translate_errors``."""
