"""Describe an environment as an experiment file does, so that another process can make one like it."""

from __future__ import annotations

import inspect
from typing import Any, Final

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper

from ..core.checks import is_json, plain
from . import bit_flip, minatar
from .ids import ENVPOOL, SYNC, VECTOR_ARGUMENTS, ClassSpec, vectorization_of
from .normalization import Wrapped, WrappedVector, are_copies, wrappers_of
from .several_agents import worlds_in

_REGISTERED_BY: Final = ("gymnasium", "minatar", "ale_py")
"""Packages whose environments :func:`~.ids.make` finds by id alone."""
_HIDDEN: Final = ("render_mode", *VECTOR_ARGUMENTS)
"""Arguments that do not change the environment."""


def arguments_of(env: Any) -> dict[str, Any] | None:
    """``id``, ``kwargs`` and ``wrappers`` for :func:`~.ids.make`, and ``vectorization`` if it is not ``"sync"``.

    The number of copies is included only for worlds with several agents, as ``num_envs``. The id of an environment that
    was not made from an id is its class, ``"module:Class"``. An environment with an entry ``unrecorded`` cannot be made
    again; the entry distinguishes it from others: arguments of the class, each with the value of the attribute of that
    name or None, and wrappers that were not given by name.

    Args:
        env: an id, an environment or a vector environment.

    Returns:
        None if copies differ, or for any other kind of vector environment.
    """
    if isinstance(env, str):
        return {"id": env, "kwargs": {}, "wrappers": []}
    if isinstance(env, gymnasium.Env):
        return _of_one(env)
    if isinstance(env, SyncVectorEnv):
        described = [_of_one(copy) for copy in env.envs]
        apart = isinstance(env.envs[0], Wrapped) and not are_copies(env.envs)
        return None if apart or any(one != described[0] for one in described) else described[0]
    return _of_vector(env) if isinstance(env, VectorEnv) else None


def _of_one(env: Any) -> dict[str, Any]:
    by_name, inner = isinstance(env, Wrapped), env.unwrapped
    if env.spec is not None:
        made: dict[str, Any] = {"id": _id(env.spec), "kwargs": _kwargs(env.spec)}
        others = [] if by_name else [(one.entry_point, one.kwargs) for one in env.spec.additional_wrappers]
    else:
        made = _of_class(inner)
        around = wrappers_of(env.env if by_name else env)
        others = [(f"{type(one).__module__}:{type(one).__qualname__}", None) for one in around]
    unrecorded = made.pop("unrecorded", {})
    if own := [wrapper for wrapper in others if not wrapper[0].startswith(f"{minatar.__name__}:")]:
        unrecorded["wrappers"] = [
            {"kind": kind, **(kwargs if is_json(kwargs) and kwargs else {})} for kind, kwargs in plain(own)
        ]
    wrappers = [dict(given) for given in env.given] if by_name else []
    return {**made, "wrappers": wrappers, **({"unrecorded": unrecorded} if unrecorded else {})}


def _of_vector(env: Any) -> dict[str, Any] | None:
    """Describe a vector environment that steps its copies together."""
    wrapped = isinstance(env, WrappedVector)
    wrappers = [dict(given) for given in env.given] if wrapped else []
    kind, spec = vectorization_of(env), env.spec
    if isinstance(env, VectorWrapper) and not wrapped:
        return None
    if kind == ENVPOOL:
        pool = env.unwrapped.pool
        return {"id": pool.env_id, "kwargs": dict(pool.arguments), "wrappers": wrappers, "vectorization": kind}
    if (worlds := worlds_in(env)) is not None:
        if worlds.given is None:
            return None
        number = len(worlds.worlds)
        return {**worlds.given, "wrappers": wrappers, "vectorization": kind, "num_envs": number}
    if spec is None or spec.kwargs.get("wrappers") or (spec.additional_wrappers and not wrapped):
        return None
    made = {"id": _id(spec), "kwargs": _kwargs(spec), "wrappers": wrappers}
    return made if kind == SYNC else {**made, "vectorization": kind}


def _of_class(env: Any) -> dict[str, Any]:
    """Describe an environment that was made by calling its class."""
    made = type(env)
    described: dict[str, Any] = {"id": f"{made.__module__}:{made.__qualname__}", "kwargs": {}}
    if isinstance(env, RecordConstructorArgs):
        kwargs = {name: plain(value) for name, value in env._saved_kwargs.items() if name not in _HIDDEN}
        return {**described, "kwargs": kwargs}
    names = [name for name in inspect.signature(made).parameters if name not in _HIDDEN]
    kept = {name: plain(getattr(env, name, None)) for name in names}
    return {**described, "unrecorded": {name: value if is_json(value) else None for name, value in kept.items()}}


def _kwargs(spec: EnvSpec) -> dict[str, Any]:
    """Arguments that differ from the environment's registration."""
    registered = gymnasium.registry.get(spec.id)
    usual = {} if registered is None else {**registered.kwargs, "max_episode_steps": registered.max_episode_steps}
    if isinstance(spec, ClassSpec):  # the class has no limit
        usual = {"max_episode_steps": None}
    limit = spec.max_episode_steps
    if limit is None and usual.get("max_episode_steps") is not None:
        limit = -1  # "no limit" for gymnasium.make
    given = {"max_episode_steps": limit, **spec.kwargs}
    return {
        name: plain(value)
        for name, value in given.items()
        if name not in _HIDDEN and (name not in usual or repr(usual[name]) != repr(value))  # it may be an array
    }


def _id(spec: EnvSpec) -> str:
    """The id; for a user's own environment preceded by the module that registers it, which Gymnasium then imports."""
    if isinstance(spec, ClassSpec):
        return spec.id
    entry = spec.entry_point
    module = entry.partition(":")[0] if isinstance(entry, str) else str(getattr(entry, "__module__", ""))
    known = not module or module == "__main__" or module.partition(".")[0] in _REGISTERED_BY
    known = known or spec.id.startswith(bit_flip.NAMESPACE)
    return spec.id if known else f"{module}:{spec.id}"
