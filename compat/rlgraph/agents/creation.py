"""Reads an agent's specification as a class and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..specs.agents import AGENTS, is_file, is_role, kind_of, read_spec
from ..utils.modules import import_object
from ..utils.rlgraph_errors import refuse


def create(cls: Any, base: Any, spec: Any, kwargs: dict[str, Any]) -> Any:
    """See ``Agent.from_spec``; ``cls`` is a subclass of ``base``."""
    where = f"{cls.__name__}.from_spec"
    if isinstance(spec, base):
        if kwargs:
            refuse(f"{where}: {next(iter(kwargs))}", "cannot be given for an existing agent", kwargs)
        if not isinstance(spec, cls):
            refuse(f"{where}: spec", f"is a {type(spec).__name__}, not a {cls.__name__}", spec)
        return spec
    kind = spec
    if isinstance(spec, Mapping) or spec is None or (isinstance(spec, str) and is_file(spec)):
        given = {} if spec is None else read_spec(f"{where}: spec", spec)
        kind = given.pop("type", None)
        kwargs = {**given, **kwargs}
    if is_role(cls.kind, kind):
        kind, kwargs = None, {"type": kind, **kwargs}
    return _class_of(cls, base, f"{where}: type", kind)(**kwargs)


def _class_of(cls: Any, base: Any, where: str, kind: Any) -> Any:
    """The agent's class for a key, a class, or its dotted name."""
    if kind is None:
        if cls.kind:
            return cls
        refuse(where, f"is missing: it must be one of {', '.join(AGENTS)}", None)
    found: Any = kind
    if isinstance(kind, str):
        found = cls.kinds[kind_of(where, kind)] if "." not in kind else import_object(where, kind)
    if not isinstance(found, type) or not issubclass(found, base):
        refuse(where, f"must be a key, a class or an agent, got {kind!r:.200}", kind)
    if not issubclass(found, cls):
        refuse(where, f"is {found.__name__}, which is not a {cls.__name__}", kind)
    return found
