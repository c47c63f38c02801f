"""Resolves specifications of modules to dictionaries with all arguments, and queries these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...common.specs import modules
from ..spaces.errors import translate_errors
from .agent_tables import TABLES


def resolve(where: str, spec: Any, kind: str, ignored: list[str] | None = None) -> dict[str, Any]:
    """Resolve a specification to a module with all its arguments: ``common.specs.modules.resolve`` with these tables.

    Raises:
        TensorforceError: the module is unknown or not supported, or an argument is unknown, missing or invalid.
    """
    with translate_errors():
        return modules.resolve(where, spec, kind, TABLES, ignored)


def terms(objective: Mapping[str, Any] | None, path: str = "objective") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The terms of an objective in normal form, each with its path."""
    if objective is None:
        return
    if objective["type"] == "plus":
        for part in ("objective1", "objective2"):
            yield from terms(objective[part], f"{path}/{part}")
    else:
        yield path, objective


def kinds(objective: Mapping[str, Any] | None) -> set[str]:
    """Kinds of an objective's terms: ``policy_gradient``, ``deterministic_policy_gradient``, ``state``, ``action``."""
    return {term["value"] if term["type"] == "value" else term["type"] for _, term in terms(objective)}


def internal_lengths(form: Any) -> list[int]:
    """Windows of the internal layers in a form's networks, in timesteps, including the current one."""
    if isinstance(form, Mapping):
        own = [int(form["internal_rnn"])] if form.get("internal_rnn") else []
        if str(form.get("type", "")).startswith("internal_"):
            own.append(int(form["length"]))
        return [*own, *(length for part in form.values() for length in internal_lengths(part))]
    return [length for part in form for length in internal_lengths(part)] if isinstance(form, list | tuple) else []
