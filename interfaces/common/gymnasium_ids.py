"""Ids of environments as programs of other libraries write them, and as Gymnasium has them today. Loads Gymnasium."""

from __future__ import annotations

import contextlib
import importlib
import logging

import gymnasium
from gymnasium.envs.registration import EnvSpec, get_env_id, parse_env_id

from ...environments import minatar

logger = logging.getLogger("axonrl")


def registered(level: str) -> tuple[str, bool]:
    """The id behind a level, and whether the level names its version.

    Without version it is the newest one; in place of a version that Gymnasium no longer has, too, with a warning.
    An unknown level is returned unchanged.
    """
    package, colon, name = level.rpartition(":")
    _load(package, name)
    try:
        namespace, short, version = parse_env_id(name)
    except gymnasium.error.Error:
        return level, True
    spec = gymnasium.registry.get(name)
    if spec is not None and not _is_gone(spec):
        return level, version is not None
    others = (one for one in gymnasium.registry.values() if (one.namespace, one.name) == (namespace, short))
    newest = max((one.version for one in others if one.version is not None and not _is_gone(one)), default=None)
    if newest is None or (version is not None and version > newest):
        return level, version is not None
    found = f"{package}{colon}{get_env_id(namespace, short, newest)}"
    if version is not None:
        logger.warning("Gymnasium no longer has %s: using %s, whose results may differ", level, found)
    return found, version is not None


def _load(package: str, name: str) -> None:
    """Import what registers an id; whether it is installed is found out when the environment is made."""
    with contextlib.suppress(ImportError, ValueError):
        if package:
            importlib.import_module(package)
        elif name.startswith(minatar.NAMESPACE):
            minatar.register()
        elif name not in gymnasium.registry and not any(one.name == name for one in gymnasium.registry.values()):
            importlib.import_module("ale_py")  # games of Atari had no prefix


def _is_gone(spec: EnvSpec) -> bool:
    """Is it only registered so that making it says what to do instead?"""
    return getattr(spec.entry_point, "__name__", "").startswith("_raise")
