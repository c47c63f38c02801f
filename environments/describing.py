"""An environment as an experiment file describes it, so that another process can make one like it."""

from __future__ import annotations

from typing import Any, Final

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper

from . import bit_flip, minatar
from .making import ENVPOOL, SYNC, VECTOR_ARGUMENTS, vectorization_of
from .normalization import BY_NAME, Wrapped, WrappedVector, are_copies

_REGISTERED_BY: Final = ("gymnasium", "minatar", "ale_py")
"""Packages whose environments :func:`~.making.make` knows by their ids alone."""


def arguments_of(env: Any) -> dict[str, Any] | None:
    """``id``, ``kwargs`` and ``wrappers`` for :func:`~.making.make`, and ``vectorization`` where it is not ``"sync"``.

    The number of copies is not among them.

    Args:
        env: an id, an environment or a vector environment.

    Returns:
        None where they cannot be told: it was not made from an id, or is in wrappers that were not given by name.
    """
    if isinstance(env, str):
        return {"id": env, "kwargs": {}, "wrappers": []}
    wrapped_all = isinstance(env, WrappedVector)
    if (isinstance(env, VectorWrapper) and not wrapped_all) or not isinstance(env, gymnasium.Env | VectorEnv):
        return None
    one: Any = env.envs[0] if isinstance(env, SyncVectorEnv) else env
    if isinstance(env, SyncVectorEnv):
        described = {repr(arguments_of(copy)) for copy in env.envs}
        if len(described) > 1 or (isinstance(one, Wrapped) and not are_copies(env.envs)):
            return None
    wrappers = [dict(given) for given in one.given] if isinstance(one, BY_NAME) else []
    kind, spec = vectorization_of(env), one.spec
    if kind == ENVPOOL:
        pool = one.unwrapped.pool
        return {"id": pool.env_id, "kwargs": dict(pool.arguments), "wrappers": wrappers, "vectorization": kind}
    if spec is None or spec.kwargs.get("wrappers") or (not isinstance(one, BY_NAME) and _has_others(spec)):
        return None
    made = {"id": _id(spec), "kwargs": _kwargs(spec), "wrappers": wrappers}
    return made if kind == SYNC else {**made, "vectorization": kind}


def _has_others(spec: EnvSpec) -> bool:
    """Wrappers that were not given by name?"""
    return any(not wrapper.entry_point.startswith(f"{minatar.__name__}:") for wrapper in spec.additional_wrappers)


def _kwargs(spec: EnvSpec) -> dict[str, Any]:
    """What differs from the environment's registration."""
    registered = gymnasium.registry.get(spec.id)
    usual = {} if registered is None else {**registered.kwargs, "max_episode_steps": registered.max_episode_steps}
    limit = spec.max_episode_steps
    if limit is None and usual.get("max_episode_steps") is not None:
        limit = -1  # as gymnasium.make takes "no limit"
    given = {"max_episode_steps": limit, **spec.kwargs}
    hidden = ("render_mode", *VECTOR_ARGUMENTS)
    return {
        name: value
        for name, value in given.items()
        if name not in hidden and (name not in usual or repr(usual[name]) != repr(value))  # it may be an array
    }


def _id(spec: EnvSpec) -> str:
    """The id; of an environment of the user's, after the module that has it, which Gymnasium then imports."""
    entry = spec.entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else str(getattr(entry, "__module__", ""))
    known = not module or module == "__main__" or module.partition(".")[0] in _REGISTERED_BY
    known = known or spec.id.startswith(bit_flip.NAMESPACE)
    return spec.id if known else f"{module}:{spec.id}"
