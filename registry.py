"""Names for model functions, memories, hooks and trackers, as an experiment file or a run's record writes them.

A name stands for a ``"package.module:attribute"`` string, which is imported when the name is used and not before: to
list what there is loads nothing.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final


def _algorithms() -> dict[str, str]:
    """The files in models/: each is an algorithm, with a function ``model_fn``."""
    files = sorted((Path(__file__).parent / "models").glob("[!_]*.py"))
    return {file.stem: f"axonrl.models.{file.stem}:model_fn" for file in files}


BUILT_IN: Final[Mapping[str, Mapping[str, str]]] = {
    "model_fn": _algorithms(),
    "memory": {
        "replay": "axonrl.memories:ReplayMemory",
        "batch": "axonrl.memories:BatchMemory",
    },
    "hook": {
        "logging": "axonrl.hooks:LoggingHook",
        "counter": "axonrl.hooks:CounterHook",
        "checkpoint": "axonrl.hooks:CheckpointHook",
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
    "tracker": {
        "polyaxon": "axonrl.experiments.polyaxon.tracker:PolyaxonServer",
        "mlflow": "axonrl.experiments.tracking.mlflow:MLflowTracker",
    },
}
"""Kind, then short name, then where it is. Other packages add names as entry points: see :func:`group`."""


def find(kind: str, name: str) -> Any:
    """The function or class that a name stands for.

    Args:
        kind: ``"model_fn"``, ``"memory"``, ``"hook"`` or ``"tracker"``.
        name: a short name, or ``package.module:attribute``, which is imported as it stands.

    Raises:
        ValueError: the kind or the name is unknown (with the nearest one), the name means several things, or importing
            what it means fails.
    """
    built_in = _built_in(kind)
    if ":" in name:
        return _resolve(kind, name)
    found = [built_in[name]] if name in built_in else []
    found += [entry.value for entry in entry_points(group=group(kind)) if entry.name == name]
    if len(targets := list(dict.fromkeys(found))) > 1:
        raise ValueError(f"{kind} {name!r} is the name of {' and of '.join(targets)}: write the one that is meant")
    if targets:
        return _resolve(kind, targets[0])
    raise ValueError(f"unknown {kind} {name!r}{suggestion(name, names(kind))}; it may also be 'package.module:name'")


def group(kind: str) -> str:
    """The entry-point group of a kind: ``"axonrl.hooks"`` for hooks, else ``"axonrl.<kind>"``."""
    return "axonrl.hooks" if kind == "hook" else f"axonrl.{kind}"


def names(kind: str) -> list[str]:
    """The short names of a kind, sorted: the built-in ones and those that installed packages add."""
    return sorted({*_built_in(kind), *(entry.name for entry in entry_points(group=group(kind)))})


def name_of(function: Any) -> str | None:
    """The name under which :func:`find` gives back this very object, in another process too.

    Returns:
        The short name of a built-in one, else ``"module:qualname"``; None where no import leads to it (a lambda, a
        nested function, an instance, or something defined in ``__main__``).
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
            # A class may live deeper than where it is exported: compare objects, but import nothing for it.
            if package in sys.modules and vars(sys.modules[package]).get(attribute) is function:
                return name
    return f"{module}:{qualname}"


def summary(kind: str, name: str) -> str:
    """The first line of a built-in one's docstring, read from its source: nothing heavy is imported.

    Returns:
        The line, or an empty string where there is none to be found.
    """
    module, _, attribute = _built_in(kind).get(name, "").partition(":")
    for path in _sources(module):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute:
                docstring = ast.get_docstring(node) or ""
                return docstring.partition("\n")[0]
    return ""


def suggestion(name: str, choices: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the nearest choice, else the choices, else nothing."""
    choices = sorted(choices)
    if close := nearest(name, choices):
        return f"; did you mean {close!r}?"
    return f"; there are {', '.join(choices)}" if choices else ""


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that is most like the name, or None if none is much like it."""
    close = difflib.get_close_matches(name[:200], list(choices), n=1)
    return close[0] if close else None


def _built_in(kind: str) -> Mapping[str, str]:
    if kind not in BUILT_IN:
        raise ValueError(f"unknown kind {kind!r}{suggestion(kind, BUILT_IN)}")
    return BUILT_IN[kind]


def _resolve(kind: str, target: str) -> Any:
    module_name, _, qualname = target.partition(":")
    if not module_name or not qualname or module_name.startswith("."):
        raise ValueError(f"{kind} {target!r} must be 'package.module:name'")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever a user's module does while it is imported
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise ValueError(f"{kind} {target!r}: there is no module {error.name!r} on the import path") from error
        raise ValueError(
            f"{kind} {target!r}: importing {module_name!r} failed with {type(error).__name__}: {error}"
        ) from error
    try:
        found = _attribute(module, qualname)
    except AttributeError as error:
        public = [name for name in dir(module) if not name.startswith("_")]
        close = nearest(qualname, public)
        hint = f"; did you mean {close!r}?" if close else ""
        raise ValueError(f"{kind} {target!r}: module {module_name!r} has no {qualname!r}{hint}") from error
    if not callable(found):
        raise ValueError(f"{kind} {target!r} must be a function or a class, got {type(found).__name__}")
    return found


def _attribute(module: Any, qualname: str) -> Any:
    for part in qualname.split("."):
        module = getattr(module, part)
    return module


def _sources(module: str) -> list[Path]:
    """The module's file and, for a package, the modules in it."""
    spec = importlib.util.find_spec(module) if module else None
    if spec is None or spec.origin is None:
        return []
    origin = Path(spec.origin)
    return [origin, *sorted(origin.parent.glob("*.py"))] if origin.name == "__init__.py" else [origin]
