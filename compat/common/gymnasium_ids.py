"""Environment ids as written in 2018, looked up in Gymnasium, which is loaded for the first look-up."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any


def registered_id(given: str) -> tuple[str, bool]:
    """Gymnasium's id for the given id, and whether the given id names a version.

    An id without a version, or with a version that Gymnasium has removed, becomes the newest version. An unknown id
    is returned unchanged.
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
    """Import the module that registers an id, if installed; a missing one is reported when the environment is made."""
    import gymnasium

    from ...environments import minatar

    with contextlib.suppress(ImportError, ValueError):
        if package:
            importlib.import_module(package)
        elif name.startswith(minatar.NAMESPACE):
            minatar.register()
        elif name not in gymnasium.registry and not any(one.name == name for one in gymnasium.registry.values()):
            importlib.import_module("ale_py")  # Atari games had no prefix


def _is_gone(spec: Any) -> bool:
    """Is the id registered only to raise an error that names a replacement?"""
    return getattr(spec.entry_point, "__name__", "").startswith("_raise")
