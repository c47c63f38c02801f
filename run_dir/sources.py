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
    """Source of functions and classes, and values of the names they use."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        self.unknown: set[str] = set()
        self.files: set[Path] = set()

    def add(self, name: str, value: Any) -> None:
        """Add the value of a name; for a user's function or class, also everything that it uses."""
        if is_json(value):
            self.constants[name] = repr(value)
        elif isinstance(value, np.ndarray | np.generic):
            self.constants[name] = hashlib.sha256(value.tobytes()).hexdigest() + f"{value.dtype}{value.shape}"
        elif isinstance(value, functools.partial):
            self.add(name, value.func)
            for key, item in (*enumerate(value.args), *value.keywords.items()):
                self.add(f"{name}({key})", item)
        elif isinstance(value, types.MethodType):
            self.add(name, value.__func__)
            self.add(f"{name}.__self__", value.__self__)
        elif isinstance(value, types.FunctionType | type):
            self._add_source(value)
        elif not isinstance(value, _WITHOUT_EFFECT):
            self.unknown.add(name)
            self._add_source(type(value))

    def _add_source(self, value: types.FunctionType | type) -> None:
        path = f"{value.__module__}:{value.__qualname__}"
        if path in self.sources or not is_own(value):
            return
        try:
            self.files.add(Path(inspect.getfile(value)))
            tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
        except (OSError, TypeError, SyntaxError):  # typed into an interpreter, or a lambda within an expression
            self.sources[path] = ""
            self.unknown.add(path.partition(":")[2])
            return
        self.sources[path] = ast.unparse(tree)  # without comments, and the same in every Python
        means = _names_of(value)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in means:
                self.add(node.id, means[node.id])
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = means.get(node.value.id)
                if isinstance(module, types.ModuleType) and is_own(module) and hasattr(module, node.attr):
                    self.add(f"{node.value.id}.{node.attr}", getattr(module, node.attr))


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


def _names_of(value: types.FunctionType | type) -> dict[str, Any]:
    """Values of the outer names used by a function, or by a class and its methods."""
    if isinstance(value, type):
        around = vars(sys.modules[value.__module__])
        bases = {base.__name__: base for base in value.__bases__ if around.get(base.__name__) is base}
        inside = (inspect.unwrap(getattr(item, "__func__", item)) for item in vars(value).values() if callable(item))
        methods = (_names_of(item) for item in inside if isinstance(item, types.FunctionType))
        return dict(itertools.chain(bases.items(), *(names.items() for names in methods)))
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    closed = {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}
    names = {name for name in _globals_of(value.__code__) if name in value.__globals__}
    return {**{name: value.__globals__[name] for name in names}, **closed}


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Names of globals read by the code and by functions within it."""
    yield from (str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)
