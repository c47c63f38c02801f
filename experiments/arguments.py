"""What an Experiment is given, checked where it is made: what is wrong with it shows before anything is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.checks import count, did_you_mean, shortened
from ..core.errors import ArgumentError
from ..estimators.limits import Goal, UpdateSchedule
from ..hooks.hook import Hooks
from .exported_policies import ExportStrategy


def strategies_of(given: Any) -> list[ExportStrategy]:
    """One, or several; ``ArgumentError`` for what has no ``export``."""
    several = given if isinstance(given, Iterable) and not hasattr(given, "export") else [given]
    found: list[ExportStrategy] = list(several)
    for one in found:
        if isinstance(one, type) or not callable(getattr(one, "export", None)):
            message = (
                "export_strategies must be objects with a method export(agent, policy, timestep, results), such as"
                f" BestExport('exported/best'); got {shortened(one)}"
            )
            raise ArgumentError(message, "export_strategies", given)
    return found


def hooks_of(argument: str, given: Any) -> list[Any]:
    """One hook or function, or several, as ``Agent.train`` takes them; ``ArgumentError`` for what is none."""
    from ..estimators.estimator import as_hooks

    try:
        found = [*as_hooks(given)]
        Hooks(found)
    except ValueError as error:
        message = f"{argument} must be a hook, a function, or several of them; got {shortened(given)}: {error}"
        raise ArgumentError(message, argument, given) from error
    return found


def training_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ``Agent.train``; ``ArgumentError`` for an unknown name, or a number that it would refuse."""
    schedule, goal = ([field.name for field in dataclasses.fields(kind)] for kind in (UpdateSchedule, Goal))
    names = [*schedule, *goal, "cluster"]
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names)
            message = f"Agent.train has no argument {name!r}{hint}; an Experiment passes it {', '.join(names)}"
            raise ArgumentError(message, name, given[name])
    for name in schedule:
        if name in given:
            count(name, given[name])
    Goal(**{name: given[name] for name in goal if name in given})
    return dict(given)
