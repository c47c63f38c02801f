"""An environment as an experiment file describes it, so that another process can make one like it."""

from __future__ import annotations

from typing import Any, Final

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper

from . import minatar
from .making import VECTOR_ARGUMENTS
from .normalization import Wrapped, are_copies

_REGISTERED_BY: Final = ("gymnasium", "minatar", "ale_py")
"""Packages whose environments :func:`~.making.make` knows by their ids alone."""


def arguments_of(env: Any) -> dict[str, Any] | None:
    """``id``, ``kwargs`` and ``wrappers`` for :func:`~.making.make`; the number of copies is not among them.

    Args:
        env: an id, an environment or a vector environment.

    Returns:
        None where they cannot be told: it was not made from an id, or is in wrappers that were not given by name.
    """
    if isinstance(env, str):
        return {"id": env, "kwargs": {}, "wrappers": []}
    if isinstance(env, VectorWrapper) or not isinstance(env, gymnasium.Env | VectorEnv):
        return None
    one = env.envs[0] if isinstance(env, SyncVectorEnv) else env
    if isinstance(env, SyncVectorEnv):
        described = {repr(arguments_of(copy)) for copy in env.envs}
        if len(described) > 1 or (isinstance(one, Wrapped) and not are_copies(env.envs)):
            return None
    wrappers = [dict(given) for given in one.given] if isinstance(one, Wrapped) else []
    spec = one.spec
    if spec is None or spec.kwargs.get("wrappers"):
        return None
    if not isinstance(one, Wrapped) and any(
        not wrapper.entry_point.startswith(f"{minatar.__name__}:") for wrapper in spec.additional_wrappers
    ):
        return None
    registered = gymnasium.registry.get(spec.id)
    usual = {} if registered is None else {**registered.kwargs, "max_episode_steps": registered.max_episode_steps}
    limit = spec.max_episode_steps
    if limit is None and usual.get("max_episode_steps") is not None:
        limit = -1  # as gymnasium.make takes "no limit"
    given = {"max_episode_steps": limit, **spec.kwargs}
    hidden = ("render_mode", *VECTOR_ARGUMENTS)
    kwargs = {
        name: value
        for name, value in given.items()
        if name not in hidden and (name not in usual or repr(usual[name]) != repr(value))  # it may be an array
    }
    return {"id": _id(spec), "kwargs": kwargs, "wrappers": wrappers}


def _id(spec: EnvSpec) -> str:
    """The id; of an environment of the user's, after the module that has it, which Gymnasium then imports."""
    entry = spec.entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else str(getattr(entry, "__module__", ""))
    known = not module or module == "__main__" or module.partition(".")[0] in _REGISTERED_BY
    return spec.id if known else f"{module}:{spec.id}"
