"""Operations of both clients: coroutines that one client runs at once, and that the other one's caller awaits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from .messages import Result

P = ParamSpec("P")
Result_co = TypeVar("Result_co", covariant=True)


class Blocking(Protocol):
    """A client whose calls block."""

    def _carry_out(self, call: Callable[[], Coroutine[Any, Any, Result]], in_order: bool) -> Result: ...


class Awaiting(Protocol):
    """A client whose calls are awaited."""

    def _carry_out(
        self, call: Callable[[], Coroutine[Any, Any, Result]], in_order: bool
    ) -> Coroutine[Any, Any, Result]: ...


class Operation(Protocol[P, Result_co]):
    """A method of both clients."""

    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Callable[P, Result_co]: ...
    @overload
    def __get__(self, client: Awaiting, owner: object = None) -> Callable[P, Coroutine[Any, Any, Result_co]]: ...


class Attribute(Protocol[Result_co]):
    """A property of the blocking client, and a method of the other."""

    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Result_co: ...
    @overload
    def __get__(self, client: Awaiting, owner: object = None) -> Callable[[], Coroutine[Any, Any, Result_co]]: ...


def operation(
    call: Callable[Concatenate[Any, P], Coroutine[Any, Any, Result]], *, in_order: bool = False
) -> Operation[P, Result]:
    """A method that carries out a call; ``in_order``: after earlier such calls of the same object."""

    @functools.wraps(call)
    def method(client: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        return client._carry_out(functools.partial(call, client, *args, **kwargs), in_order)

    return method  # type: ignore[return-value] # a function binds as Operation says


def ordered(call: Callable[Concatenate[Any, P], Coroutine[Any, Any, Result]]) -> Operation[P, Result]:
    """An operation of one environment, whose calls are made one at a time."""
    return operation(call, in_order=True)


def attribute(call: Callable[[Any], Coroutine[Any, Any, Result]]) -> Attribute[Result]:
    """A property that carries out a call; where calls are awaited, it returns a function."""

    @functools.wraps(call)
    def getter(client: Any) -> Any:
        ask = functools.partial(client._carry_out, functools.partial(call, client), False)
        return ask if client._awaits else ask()

    return property(getter)  # type: ignore[return-value]
