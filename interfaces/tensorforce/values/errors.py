"""What a user's mistake looks like, and the checks that find it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from .... import checks
from ....errors import ArgumentError


class TensorforceError(ArgumentError):
    """A call is wrong: ``argument`` and ``value`` say what, and nothing was changed."""


def refuse(argument: str, problem: str, value: object = None) -> NoReturn:
    """Raise the error of one argument: ``"Agent.act: states has"`` comes of ``("Agent.act: states", "has")``."""
    raise TensorforceError(f"{argument} {problem}", argument, value)


@contextlib.contextmanager
def told(where: str = "") -> Iterator[None]:
    """Within it an ``ArgumentError`` of axonrl becomes a :class:`TensorforceError`, which begins with ``where``."""
    try:
        yield
    except TensorforceError:
        raise
    except ArgumentError as error:
        prefix = f"{where}: " if where else ""
        raise TensorforceError(f"{prefix}{error}", error.argument, error.value) from None


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of a set of names; the message suggests the nearest."""
    with told():
        return checks.choice(name, value, choices)


def number(
    name: str, value: Any, *, above: float = -math.inf, at_least: float = -math.inf, at_most: float = math.inf
) -> float:
    """A finite number within bounds, as ``checks.number`` has it."""
    with told():
        return checks.number(name, value, above=above, at_least=at_least, at_most=at_most)


def integer(name: str, value: Any, *, at_least: int) -> int:
    """An integer of at least ``at_least``."""
    with told():
        return checks.integer(name, value, at_least=at_least)


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        refuse(name, f"must be True or False, got {value!r}", value)
    return value


def known(where: str, given: Iterable[str], allowed: Iterable[str], *, what: str = "argument") -> None:
    """Refuse names that are not allowed, with the nearest one that is."""
    allowed = list(allowed)
    for name in given:
        if name not in allowed:
            raise TensorforceError(
                f"{where} takes no {what} {name!r}{checks.did_you_mean(name, allowed)}; it takes"
                f" {', '.join(allowed) or 'none'}",
                str(name),
            )


def mapping(where: str, value: Any) -> Mapping[str, Any]:
    """A dictionary whose keys are strings."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        refuse(where, f"must be a dictionary with strings as keys, got {value!r}", value)
    return value
