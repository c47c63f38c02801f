"""Short names of model functions, memories, hooks and trackers, for experiment files and run records.

A name maps to a ``"package.module:attribute"`` string, which is imported on use: listing names loads nothing.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from .checks import nearest
from .errors import ArgumentError

_PACKAGE: Final = Path(__file__).parent.parent


def _algorithms() -> dict[str, str]:
    """The files in models/: each is an algorithm, with a function ``model_fn``."""
    files = sorted((_PACKAGE / "models").glob("[!_]*.py"))
    return {file.stem: f"axonrl.models.{file.stem}:model_fn" for file in files}


BUILT_IN: Final[Mapping[str, Mapping[str, str]]] = {
    "model_fn": _algorithms(),
    "memory": {
        "replay": "axonrl.memories:ReplayMemory",
        "batch": "axonrl.memories:BatchMemory",
        "sequence": "axonrl.memories:SequenceMemory",
        "demonstration": "axonrl.memories:DemonstrationMemory",
        "hindsight": "axonrl.memories:HindsightMemory",
    },
    "hook": {
        "logging": "axonrl.hooks:LoggingHook",
        "counter": "axonrl.hooks:CounterHook",
        "checkpoint": "axonrl.hooks:CheckpointHook",
        "curriculum": "axonrl.hooks:CurriculumHook",
        "summary": "axonrl.hooks:SummaryHook",
        "stop_at_step": "axonrl.hooks:StopAtStep",
        "stop_at_episode": "axonrl.hooks:StopAtEpisode",
        "stop_at_timestep": "axonrl.hooks:StopAtTimestep",
        "stop_at_return": "axonrl.hooks:StopAtReturn",
        "stop_after_no_improvement": "axonrl.hooks:StopAfterNoImprovement",
        "nan_guard": "axonrl.hooks:NaNGuard",
        "evaluation": "axonrl.hooks:EvaluationHook",
        "video": "axonrl.hooks:VideoHook",
        "final_values": "axonrl.hooks:FinalValuesHook",
        "progress": "axonrl.hooks:ProgressHook",
    },
    "exploration": {},  # axonrl's own are named in explorations/description.py
    "wrapper": {},  # axonrl's own are named in environments/wrapping.py
    "tracker": {
        "polyaxon": "axonrl.experiments.polyaxon.tracker:PolyaxonServer",
        "mlflow": "axonrl.experiments.tracking.mlflow:MLflowTracker",
        "wandb": "axonrl.experiments.tracking.wandb:WandbTracker",
    },
}
"""Kind to short name to target. Other packages add names as entry points: see :func:`group`."""


def find(kind: str, name: str) -> Any:
    """The function or class behind a name.

    Args:
        kind: ``"model_fn"``, ``"memory"``, ``"hook"``, ``"exploration"``, ``"wrapper"`` or ``"tracker"``.
        name: a short name, or ``package.module:attribute``.

    Raises:
        ArgumentError: the kind or the name is unknown (suggests the nearest), the name is ambiguous, or its import
            fails; ``argument`` is the kind, or ``"kind"`` if that is unknown.
    """
    built_in = _built_in(kind)
    if ":" in name:
        return _resolve(kind, name)
    found = [built_in[name]] if name in built_in else []
    found += [entry.value for entry in _entries(entry_points, group(kind), tuple(sys.path)) if entry.name == name]
    if len(targets := list(dict.fromkeys(found))) > 1:
        message = f"{kind} {name!r} is ambiguous: {' or '.join(targets)}. Use one of these instead"
        raise ArgumentError(message, kind, name)
    if targets:
        return _resolve(kind, targets[0])
    message = f"unknown {kind} {name!r}{suggestion(name, names(kind))}"
    if not message.endswith("?"):
        message += "; write 'package.module:name' for your own"
    raise ArgumentError(message, kind, name)


@functools.cache
def _entries(read: Callable[..., Iterable[EntryPoint]], wanted: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group, cached: reading those of all packages takes longer than preparing a short run."""
    return tuple(read(group=wanted))


def group(kind: str) -> str:
    """The entry-point group of a kind: ``"axonrl.hooks"`` for hooks, else ``"axonrl.<kind>"``."""
    return "axonrl.hooks" if kind == "hook" else f"axonrl.{kind}"


def names(kind: str) -> list[str]:
    """The short names of a kind, sorted: built-in ones and those of installed packages."""
    return sorted({*_built_in(kind), *(entry.name for entry in entry_points(group=group(kind)))})


def name_of(function: Any) -> str | None:
    """The name under which :func:`find` returns this object, in any process.

    Returns:
        The short name of a built-in, else ``"module:qualname"``; None if it cannot be imported (a lambda, a nested
        function, an instance, or anything defined in ``__main__``).
    """
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or module == "__main__":
        return None
    try:
        if _attribute(sys.modules[module], qualname) is not function:
            return None
    except (KeyError, AttributeError):
        return None
    for built_in in BUILT_IN.values():
        for name, target in built_in.items():
            package, _, attribute = target.partition(":")
            # A class may be defined in a deeper module than the one that exports it: compare objects, but import
            # nothing.
            if package in sys.modules and vars(sys.modules[package]).get(attribute) is function:
                return name
    return f"{module}:{qualname}"


def summary(kind: str, name: str) -> str:
    """The first line of a built-in's docstring, read from its source without importing it; empty if there is none."""
    if name not in _built_in(kind):
        return ""
    module, _, attribute = BUILT_IN[kind][name].partition(":")
    for path in _sources(module):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute:
                docstring = ast.get_docstring(node) or ""
                return docstring.partition("\n")[0]
    return ""


def suggestion(name: str, choices: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the nearest choice, else the list of choices, else an empty string."""
    choices = sorted(choices)
    if close := nearest(name, choices):
        return f"; did you mean {close!r}?"
    return f"; there are {', '.join(choices)}" if choices else ""


def _built_in(kind: str) -> Mapping[str, str]:
    if kind not in BUILT_IN:
        raise ArgumentError(f"unknown kind {kind!r}{suggestion(kind, BUILT_IN)}", "kind", kind)
    return BUILT_IN[kind]


def _resolve(kind: str, target: str) -> Any:
    module_name, _, qualname = target.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *qualname.split("."))):
        raise ArgumentError(f"{kind} {target!r} must be 'package.module:name'", kind, target)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may raise anything when it is imported
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            problem = f"there is no module {error.name!r} on the import path"
        else:
            problem = f"importing {module_name!r} failed with {type(error).__name__}: {error}"
        raise ArgumentError(f"{kind} {target!r}: {problem}", kind, target) from error
    try:
        found = _attribute(module, qualname)
    except AttributeError as error:
        public = [name for name in dir(module) if not name.startswith("_")]
        close = nearest(qualname, public)
        hint = f"; did you mean {close!r}?" if close else ""
        message = f"{kind} {target!r}: module {module_name!r} has no {qualname!r}{hint}"
        raise ArgumentError(message, kind, target) from error
    if not callable(found):
        message = f"{kind} {target!r} must be a function or a class, got {type(found).__name__}"
        raise ArgumentError(message, kind, target)
    return found


def _attribute(module: Any, qualname: str) -> Any:
    for part in qualname.split("."):
        module = getattr(module, part)
    return module


def _sources(module: str) -> list[Path]:
    """The file of one of axonrl's modules; for a package, the files of its modules. Nothing is imported."""
    place = _PACKAGE.joinpath(*module.split(".")[1:])
    return sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
