"""Digests of a user's functions and classes, recorded by a run to detect edits."""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import itertools
import logging
import sys
import sysconfig
import textwrap
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from gymnasium.vector import SyncVectorEnv

from ..core.checks import is_json

_INSTALLED: Final = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))
_OURS: Final = __name__.partition(".")[0]
_WITHOUT_EFFECT: Final = (types.ModuleType, types.BuiltinFunctionType, types.GenericAlias, logging.Logger)
_WRAPPING: Final = (staticmethod, classmethod, property, functools.cached_property)
_PARTS: Final = ("__func__", "fget", "fset", "func")
_NOTHING: Final = object()


def source_digests(model_fn: Any, env: Any) -> dict[str, Any]:
    """Digests of a run's ``model_fn`` and ``environment``, if these are the user's own.

    Args:
        model_fn: a function, or None.
        env: an environment, a vector environment or None.
    """
    inside = getattr(env, "unwrapped", None)
    one = type(inside.envs[0].unwrapped if isinstance(inside, SyncVectorEnv) else inside)
    given = {"model_fn": model_fn, "environment": one}
    return {name: digest_of(made) for name, made in given.items() if made is not None and is_own(made)}


def digest_of(made: Any) -> Mapping[str, Any]:
    """Digest the source of a function or class, including the user's code that it calls, and constants.

    Comments, layout and installed packages do not count: versions are recorded separately.

    Returns:
        ``digest``, and ``unknown``: names of values that may change unnoticed, such as an array in a closure.
    """
    found = _Sources()
    found.add(getattr(made, "__name__", type(made).__name__), made)
    text = repr((sorted(found.sources.items()), sorted(found.constants.items())))
    digest = {"digest": hashlib.sha256(text.encode()).hexdigest()[:12]}
    return {**digest, "unknown": sorted(found.unknown)} if found.unknown else digest


def files_of(made: Any) -> set[Path]:
    """The user's files that :func:`digest_of` reads."""
    found = _Sources()
    found.add("", made)
    return found.files


class _Sources:
    """Source of functions and classes, and values of the names they use.

    Each has a path: the names that lead to it from the first one. Two modules may have constants of one name, and two
    functions one source, with other values in their closures.
    """

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        self.unknown: set[str] = set()
        self.files: set[Path] = set()
        self._seen: dict[int, Any] = {}

    def add(self, path: str, value: Any) -> None:
        """Add the value at a path; for a user's function or class, also everything that it uses."""
        if is_json(value):
            self.constants[path] = repr(value)
        elif isinstance(value, np.ndarray | np.generic):
            self.constants[path] = hashlib.sha256(value.tobytes()).hexdigest() + f"{value.dtype}{value.shape}"
        elif isinstance(value, functools.partial):
            self.add(path, value.func)
            for key, item in (*enumerate(value.args), *value.keywords.items()):
                self.add(f"{path}({key})", item)
        elif isinstance(value, types.MethodType):
            self.add(path, value.__func__)
            self.add(f"{path}.__self__", value.__self__)
        elif isinstance(value, types.FunctionType | type):
            self._add_source(path, value)
        elif not isinstance(value, _WITHOUT_EFFECT):
            self.unknown.add(path.rpartition("/")[2])
            self._add_source(path, type(value))

    def _add_source(self, path: str, value: types.FunctionType | type) -> None:
        if id(value) in self._seen or not is_own(value):
            return
        self._seen[id(value)] = value  # kept, so that nothing else gets its id
        key = f"{path} {value.__module__}:{value.__qualname__}"
        try:
            self.files.add(Path(inspect.getfile(value)))
            tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
        except (OSError, TypeError, SyntaxError):  # typed into an interpreter, or a lambda within an expression
            self.sources[key] = ""
            self.unknown.add(value.__qualname__)
            return
        self.sources[key] = ast.unparse(tree)  # without comments, and the same in every Python
        means = {**_names_of(value), **_names_of_attributes(value, tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute) and (found := _meaning(node, means)) is not _NOTHING:
                self.add(f"{path}/{ast.unparse(node)}", found)
        for function in _methods_of(value) if isinstance(value, type) else [value]:
            for name, default in _defaults_of(function).items():
                self.add(f"{path}/{function.__name__}({name})", default)


def is_own(value: Any) -> bool:
    """Is this module, function or class the user's own, neither installed nor axonrl's?"""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or ""
    file = getattr(sys.modules.get(name), "__file__", None)
    if name.partition(".")[0] == _OURS or file is None:
        return name == "__main__"
    return not is_installed(file)


def is_installed(file: str) -> bool:
    """Does this file belong to Python's library or to an installed package?"""
    return file.startswith("<frozen ") or any(Path(file).resolve().is_relative_to(folder) for folder in _INSTALLED)


def _meaning(node: ast.AST, means: Mapping[str, Any]) -> Any:
    """The value of a name, or of an attribute of a user's module; ``_NOTHING`` for anything else."""
    if isinstance(node, ast.Name):
        return means.get(node.id, _NOTHING)
    module = _meaning(node.value, means) if isinstance(node, ast.Attribute) else _NOTHING
    if isinstance(node, ast.Attribute) and isinstance(module, types.ModuleType) and is_own(module):
        return getattr(module, node.attr, _NOTHING)
    return _NOTHING


def _names_of(value: types.FunctionType | type) -> dict[str, Any]:
    """Values of the outer names used by a function, or by a class and its methods."""
    if isinstance(value, type):
        around = vars(sys.modules[value.__module__])
        bases = {base.__name__: base for base in value.__bases__ if around.get(base.__name__) is base}
        methods = (_names_of(item) for item in _methods_of(value))
        return dict(itertools.chain(bases.items(), *(names.items() for names in methods)))
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    closed = {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}
    names = {name for name in _globals_of(value.__code__) if name in value.__globals__}
    return {**{name: value.__globals__[name] for name in names}, **closed}


def _names_of_attributes(value: types.FunctionType | type, tree: ast.Module) -> dict[str, Any]:
    """Values of the names from which the attributes of a class are computed when it is defined."""
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    values = (one.value for one in body if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None)
    names = {node.id for found in values for node in ast.walk(found) if isinstance(node, ast.Name)}
    around = vars(sys.modules[value.__module__])
    return {name: around[name] for name in names if name in around}


def _methods_of(kind: type) -> Iterator[types.FunctionType]:
    """The functions of a class's methods and properties."""
    for item in vars(kind).values():
        parts = [item, *(getattr(item, part, None) for part in _PARTS if isinstance(item, _WRAPPING))]
        unwrapped = (inspect.unwrap(part) for part in parts if callable(part))
        yield from (part for part in unwrapped if isinstance(part, types.FunctionType))


def _defaults_of(function: types.FunctionType) -> dict[str, Any]:
    """Defaults of arguments: they were computed when it was defined."""
    arguments = inspect.signature(function, follow_wrapped=False).parameters
    return {name: one.default for name, one in arguments.items() if one.default is not one.empty}


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Names of globals read by the code and by functions within it."""
    yield from (str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)
