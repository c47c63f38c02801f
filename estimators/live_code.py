"""Digest of a function as it is in this process, with everything of axonrl that it uses.

Source files show what a process loads. What it runs may differ: functions, table entries and constants can be replaced.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..run_dir.sources import is_installed, is_own

_OURS: Final = __name__.partition(".")[0]
_PACKAGE: Final = Path(__file__).parent.parent
_WRAPPING: Final = (
    *(staticmethod, classmethod, property, functools.cached_property),
    *(functools.partial, types.MethodType, type(functools.cache(len))),
)
_PARTS: Final = ("__func__", "__self__", "func", "fget", "fset", "args", "keywords", "__wrapped__")
_GENERATED: Final = "<string>"
"""File name of methods that ``dataclasses`` and ``collections`` generate."""


def digest_of(function: Any) -> str | None:
    """Digest a function's code, defaults and closure, and what it uses by name; None if any of it is not axonrl's."""
    live = _Live()
    live.add(function)
    return hashlib.sha256("\n".join(live.found).encode()).hexdigest() if live.is_ours else None


class _Live:
    """Walks over values; each is described by its content and the numbers of the values in it."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.is_ours = True
        self._numbers: dict[int | str, int] = {}
        self._kept: list[Any] = []  # so that no other object gets an id of these

    def add(self, value: Any) -> int:
        """The number of a value; equal strings, numbers and tuples may be the same object or not."""
        if isinstance(value, tuple):
            return self._number(f"{type(value).__qualname__} {[self.add(item) for item in value]}")
        if value is None or isinstance(value, bool | int | float | str | bytes):
            return self._number(repr(value))
        key = id(value)
        if key not in self._numbers:
            number = self._numbers[key] = len(self.found)
            self._kept.append(value)
            self.found.append("")
            self.found[number] = f"{number} {self._value_summary(value)}"
        return self._numbers[key]

    def _number(self, text: str) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.found)
            self.found.append(text)
        return self._numbers[text]

    def _value_summary(self, value: Any) -> str:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        match value:
            case types.FunctionType():
                return self._function(value)
            case type():
                return self._of_class(value)
            case dict() | types.MappingProxyType():
                content: Any = [(self.add(key), self.add(item)) for key, item in value.items()]
            case list():
                content = [self.add(item) for item in value]
            case set() | frozenset():
                content = sorted(map(repr, value))
            case np.ndarray() | np.generic():
                content = value.dtype, value.shape, value.tobytes()
            case dataclasses.Field():
                content = [self.add(one) for one in (value.default, value.default_factory, value.metadata)]
            case _ if isinstance(value, _WRAPPING):
                content = [(name, self.add(getattr(value, name))) for name in _PARTS if hasattr(value, name)]
            case _ if kind.partition(".")[0] == _OURS:
                content = [self.add(type(value)), self.add(_state(value))]
            case _:
                self.is_ours &= not is_own(type(value)) and type(value).__module__ != "unittest.mock"
                content = ""
        return f"{kind} {content}"

    def _of_class(self, value: type) -> str:
        name = f"{value.__module__}.{value.__qualname__}"
        if value.__module__.partition(".")[0] != _OURS:
            self.is_ours &= not is_own(value)
            return name
        members = sorted((key, item) for key, item in vars(value).items() if _counts(key, item))
        return f"{name} {[self.add(base) for base in value.__bases__]} {[(key, self.add(one)) for key, one in members]}"

    def _function(self, value: types.FunctionType) -> str:
        name, file = f"{value.__module__}.{value.__qualname__}", value.__code__.co_filename
        if file != _GENERATED and not _is_ours(file):
            self.is_ours &= is_installed(file)
            return f"{name} {_code(value.__code__)} {self._add_closure(value)}"
        used = sorted({*_names(value.__code__)})
        around = value.__globals__
        uses = {one: self.add(around[one]) for one in used if one in around and not _is_module(around[one])}
        for module in (around[one] for one in used if one in around and _is_module(around[one])):
            if module.__name__.partition(".")[0] == _OURS:
                there = {one: self.add(vars(module)[one]) for one in used if one in vars(module)}
                uses[module.__name__] = self.add(there)
        return f"{name} {_code(value.__code__)} {self._add_closure(value)} {sorted(uses.items())}"

    def _add_closure(self, value: types.FunctionType) -> list[int]:
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return [self.add(one) for one in (value.__defaults__, value.__kwdefaults__, cells)]


@functools.cache
def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(_PACKAGE)


def _counts(name: str, value: Any) -> bool:
    """Is this member of a class the program's, not Python's? Copying an object also stores names in its class."""
    return not name.startswith("__") or name == "__dataclass_fields__" or callable(value)


def _state(value: Any) -> dict[str, Any]:
    """Attributes of one of axonrl's objects, also of one that imports missing attributes on use."""
    slots = [name for one in type(value).__mro__ for name in vars(one).get("__slots__", ()) if hasattr(value, name)]
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}


def _is_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _code(code: types.CodeType) -> str:
    """The instructions of code and the names and constants that they use."""
    constants = [
        _code(one)
        if isinstance(one, types.CodeType)
        else f"set {sorted(map(repr, one))}"
        if isinstance(one, frozenset)
        else repr(one)
        for one in code.co_consts
    ]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return f"{code.co_code.hex()} {constants} {names}"
