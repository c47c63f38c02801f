"""Ids of environments as programs of 2018 wrote them. Gymnasium is loaded when one is looked up."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any


def registered_id(given: str) -> tuple[str, bool]:
    """The id that Gymnasium has for a given one, and whether the given one names its version.

    Without version it is the newest one; in place of a version that Gymnasium no longer has, too. An unknown id is
    returned unchanged.
    """
    import gymnasium
    from gymnasium.envs.registration import get_env_id, parse_env_id

    package, colon, name = given.rpartition(":")
    _load(package, name)
    try:
        namespace, short, version = parse_env_id(name)
    except gymnasium.error.Error:
        return given, True
    spec = gymnasium.registry.get(name)
    if spec is not None and not _is_gone(spec):
        return given, version is not None
    others = (one for one in gymnasium.registry.values() if (one.namespace, one.name) == (namespace, short))
    newest = max((one.version for one in others if one.version is not None and not _is_gone(one)), default=None)
    if newest is None or (version is not None and version > newest):
        return given, version is not None
    return f"{package}{colon}{get_env_id(namespace, short, newest)}", version is not None


def _load(package: str, name: str) -> None:
    """Import what registers an id; whether it is installed is found out when the environment is made."""
    import gymnasium

    from ...environments import minatar

    with contextlib.suppress(ImportError, ValueError):
        if package:
            importlib.import_module(package)
        elif name.startswith(minatar.NAMESPACE):
            minatar.register()
        elif name not in gymnasium.registry and not any(one.name == name for one in gymnasium.registry.values()):
            importlib.import_module("ale_py")  # games of Atari had no prefix


def _is_gone(spec: Any) -> bool:
    """Is it only registered so that making it says what to do instead?"""
    return getattr(spec.entry_point, "__name__", "").startswith("_raise")
