"""Make environments from ids, with clear errors for invalid ones."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import difflib
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorWrapper
from gymnasium.wrappers import NormalizeObservation, NormalizeReward

from ..core.checks import choice, count, is_json, plain
from ..core.errors import ArgumentError
from ..core.protocols import MOST_LANES
from . import bit_flip, minatar
from .adapters import details_of, open_batched
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment
from .copies import Single
from .native import NativeVectorEnv, check_native, make_native
from .normalization import Wrapped, WrappedVector, are_copies, wrappers_of
from .pooled import Pool, PooledEnv, PooledVectorEnv
from .several_agents import from_pettingzoo, worlds_in
from .worlds import WorldsVectorEnv
from .wrapping import Given, Wrapping

_ATARI = "ALE/"
"""Prefix of the ids of the Arcade Learning Environment's games."""
_NAMESPACES = {minatar.NAMESPACE: "minatar", _ATARI: "ale_py"}
"""Prefix of ids to the module that registers them."""
_REGISTER: Mapping[str, Callable[[], object]] = {
    minatar.NAMESPACE: minatar.register,
    bit_flip.NAMESPACE: bit_flip.register,
    _ATARI: functools.partial(importlib.import_module, "ale_py"),
}
"""Prefix of ids to the function that registers them."""
_EXTRAS = {
    "gymnasium.envs.box2d": "box2d",
    "gymnasium.envs.mujoco": "mujoco",
    "minatar": "minatar",
    "ale_py": "atari",
}
"""Module of an environment to the extra of axonrl that installs its dependencies."""
SYNC, NATIVE, ENVPOOL, PETTINGZOO = "sync", "native", "envpool", "pettingzoo"
VECTORIZATIONS = (SYNC, NATIVE, ENVPOOL, PETTINGZOO)
"""Ways to step several copies: one after the other; as arrays; in threads; worlds, with their agents as lanes."""
VECTOR_ARGUMENTS = ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers")
"""Keyword arguments of ``gymnasium.make_vec`` that a spec records among the environment's own."""


@overload
def make(
    env_id: str, num_envs: None = None, *, vectorization: str = SYNC, wrappers: Sequence[Given] = (), **kwargs: Any
) -> AnyEnv: ...
@overload
def make(
    env_id: str, num_envs: int, *, vectorization: str = SYNC, wrappers: Sequence[Given] = (), **kwargs: Any
) -> AnyVectorEnv: ...
def make(
    env_id: str,
    num_envs: int | None = None,
    *,
    vectorization: str = SYNC,
    wrappers: Sequence[Given] = (),
    **kwargs: Any,
) -> AnyEnv | AnyVectorEnv:
    """Make an environment from its id.

    Example::

        make("Hopper-v5", 4, wrappers=["normalize_observation", {"kind": "time_limit", "max_episode_steps": 200}])

    Args:
        env_id: an id of Gymnasium (``"CartPole-v1"``, ``"package:Name-v0"``), MinAtar, the Arcade Learning
            Environment (``"ALE/Pong-v5"``), ``"axonrl/BitFlip-v0"``, or an environment's class, ``"module:Class"``.
        num_envs: number of copies, at most 65,536; None makes a single environment.
        vectorization: how copies are stepped: ``"sync"``, one after the other, for every id; ``"native"``, as arrays,
            for Gymnasium's classic control (``environments.native.IDS``), with the same results bit for bit;
            ``"envpool"``, in EnvPool's threads, for its ids: such a run does not resume exactly; ``"pettingzoo"``,
            worlds with several agents, see :func:`from_pettingzoo`, whose ``parallel_env`` is the id.
        wrappers: names, or mappings ``{"kind": name, argument: value, ...}``, the innermost first; see
            ``environments.wrappers``. Other wrappers are named ``package.module:Wrapper``. ``normalize_observation``
            and ``normalize_reward`` share their statistics among all copies.
        **kwargs: passed to ``gymnasium.make``, or ``envpool.make``: ``max_episode_steps`` and the environment's own
            arguments; for EnvPool also ``num_threads``.

    Returns:
        A ``gymnasium.Env``; with ``num_envs``, even if it is 1, a ``SyncVectorEnv`` with autoreset disabled, or another
        vector environment. Gymnasium's checker is left out unless ``disable_env_checker=False`` is given: a batched
        environment checks more.

    Raises:
        ArgumentError: the id is unknown (suggests the nearest), a dependency is missing (says what to install), or an
            argument is invalid.
        WrapperError: a wrapper or one of its arguments is invalid, or does not fit the environment; also an
            ArgumentError.
    """
    if not isinstance(env_id, str):
        raise ArgumentError(f"env_id must be an id, such as 'CartPole-v1', got {env_id!r}", "env_id", env_id)
    if num_envs is not None:
        num_envs = count("num_envs", num_envs, at_most=MOST_LANES)
    choice("vectorization", vectorization, VECTORIZATIONS)
    if vectorization != SYNC:
        return _make_vector(env_id, num_envs, vectorization, Wrapping(wrappers), kwargs)
    if wrappers:
        return _make_wrapped(env_id, num_envs, Wrapping(wrappers), kwargs)
    if num_envs is None:
        return _make_one(env_id, kwargs)
    return SyncVectorEnv([lambda: _make_one(env_id, kwargs)] * num_envs, autoreset_mode=AutoresetMode.DISABLED)


@dataclasses.dataclass
class ClassSpec(EnvSpec):
    """How :func:`make` made an environment from its class, ``"module:Class"``, with arguments that JSON holds."""


def vectorization_of(env: Any) -> str:
    """The ``vectorization`` that :func:`make` was given: how the copies in ``env`` are stepped."""
    inside = getattr(env, "unwrapped", None)
    kinds = {NATIVE: NativeVectorEnv, ENVPOOL: PooledVectorEnv, PETTINGZOO: WorldsVectorEnv}
    return next((name for name, kind in kinds.items() if isinstance(inside, kind)), SYNC)


def open_environment(env: AnyEnv | AnyVectorEnv | str) -> BatchedEnvironment:
    """Open the batched interface to any environment.

    Args:
        env: a ``gymnasium.Env``, a ``gymnasium.vector.VectorEnv`` or an id. The result's ``close`` only closes an
            environment made from an id.

    Raises:
        ArgumentError: a space is unsupported, the id is invalid, or ``env`` is something else.
    """
    if isinstance(env, str):
        made = _make_one(env, {})
        return Single(made, owned=True, **details_of(made, made))
    return open_batched(env)


def similar(env: AnyEnv | AnyVectorEnv | str) -> AnyEnv:
    """Make a new single environment like ``env``, with the same wrappers.

    Normalisation reads the statistics of ``env`` and does not change them.

    Args:
        env: an id, an environment made from one, or a Sync- or AsyncVectorEnv.

    Raises:
        ArgumentError: ``env`` cannot be made again, or the new one would lack a wrapper's statistics.
    """
    if isinstance(env, str):
        return _make_one(env, {})
    if isinstance(env, WrappedVector) and worlds_in(env) is None:
        return Wrapped(similar(env.env), env.normalizers, None, env.given)
    if isinstance(env, PooledVectorEnv):
        return PooledEnv(env.pool)
    if isinstance(env, VectorWrapper | WorldsVectorEnv):
        shared = "its agents share a world"
        why = shared if worlds_in(env) is not None else "wrappers of a vector environment do not fit a single one"
        raise _pass_env(env, why)
    if isinstance(env, SyncVectorEnv) and are_copies(env.envs):
        env = env.envs[0]
    try:
        if isinstance(env, SyncVectorEnv | AsyncVectorEnv):
            fresh = env.env_fns[0]()
        elif env.spec is not None:
            fresh = _from_spec(env.spec)
        else:
            raise ValueError("it was not made from an id")
    except Exception as error:
        raise _pass_env(env, str(error)) from error
    if isinstance(env, SyncVectorEnv) and fresh in env.envs:
        raise _pass_env(env, "its function returns an environment that it contains already, not a new one")
    for wrapper in wrappers_of(fresh):
        learns = isinstance(wrapper, Wrapped) and wrapper.row is not None and any(wrapper.normalizers)
        if learns or isinstance(wrapper, NormalizeObservation | NormalizeReward):
            fresh.close()
            raise _pass_env(env, f"{type(wrapper).__name__} has running statistics, which a new one would lack")
    return fresh


def _make_wrapped(
    env_id: str, num_envs: int | None, wrapping: Wrapping, kwargs: dict[str, Any]
) -> AnyEnv | AnyVectorEnv:
    envs: list[AnyEnv] = []
    try:
        for _ in range(num_envs or 1):
            envs.append(_make_one(env_id, kwargs))
            envs[-1] = wrapping.wrap(envs[-1])
        normalizers = wrapping.normalizers(envs[0].observation_space, len(envs))
    except ValueError:
        for env in envs:
            env.close()
        raise
    wrapped = [Wrapped(env, normalizers, row, wrapping.given) for row, env in enumerate(envs)]
    if num_envs is None:
        return wrapped[0]
    functions = [functools.partial(wrapped.__getitem__, row) for row in range(len(wrapped))]
    return SyncVectorEnv(functions, autoreset_mode=AutoresetMode.DISABLED)


def _make_vector(
    env_id: str, num_envs: int | None, vectorization: str, wrapping: Wrapping, kwargs: dict[str, Any]
) -> AnyVectorEnv:
    if vectorization == PETTINGZOO:
        return from_pettingzoo(env_id, num_envs or 1, wrappers=wrapping.given, **kwargs)
    if num_envs is None:
        message = f"vectorization {vectorization!r} needs the number of copies, num_envs"
        raise ArgumentError(message, "num_envs", num_envs)
    can_do = () if vectorization == NATIVE else ("channels_last",)
    does = wrapping.refuse_around_each(f"the copies of {env_id} with vectorization {vectorization!r}", can_do)
    env: NativeVectorEnv | PooledVectorEnv
    if vectorization == NATIVE:
        check_native(env_id, kwargs)
        env = make_native(_make_one(env_id, kwargs), num_envs)
    else:
        env = PooledVectorEnv(Pool(env_id, num_envs, kwargs, channels_last=bool(does)))
    if not wrapping.given:
        return env
    return WrappedVector(env, wrapping.normalizers(env.single_observation_space, num_envs), wrapping.given)


def _make_one(env_id: str | EnvSpec, kwargs: dict[str, Any]) -> AnyEnv:
    name = env_id if isinstance(env_id, str) else env_id.id
    env: AnyEnv
    is_minatar = isinstance(env_id, str) and env_id.startswith(minatar.NAMESPACE)
    try:
        for namespace, register in _REGISTER.items():
            if name.startswith(namespace):
                register()
        if isinstance(env_id, str) and (own := _class_of(env_id)) is not None:
            env = own(**kwargs)
            if env.unwrapped is env and env.spec is None and is_json(plain(kwargs)):
                env.spec = ClassSpec(env_id, own, order_enforce=False, disable_env_checker=True, kwargs=kwargs)
            return env
        env = gymnasium.make(env_id, **{"disable_env_checker": True, **kwargs})
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        message = f"{name} needs a package that is not installed: {_advice(name, str(error))}"
        raise ArgumentError(message, "env_id", name) from error
    except gymnasium.error.Error as error:
        if name.rpartition(":")[2] in gymnasium.registry:
            raise _not_made(name, kwargs, error) from error
        for register in _REGISTER.values():
            with contextlib.suppress(ImportError):
                register()
        if name in gymnasium.registry:  # an id without its namespace: PongNoFrameskip-v4
            return _make_one(env_id, kwargs)
        near = difflib.get_close_matches(name, list(gymnasium.registry), n=3)
        hint = f"import the package that registers it, or name that package, as in 'package:{name}'"
        module, colon, path = name.partition(":")
        if near:
            hint = f"did you mean {' or '.join(map(repr, near))}?"
        elif colon:
            hint = f"module {module!r} neither registers the id {path!r} nor has a gymnasium.Env of this name"
        raise ArgumentError(f"unknown environment {name!r}; {hint}", "env_id", name) from error
    except Exception as error:
        raise _not_made(name, kwargs, error) from error
    return minatar.FromSeed(env) if is_minatar else env


def _class_of(name: str) -> Callable[..., AnyEnv] | None:
    """The class of a name ``"module:Class"``; None for an id, which Gymnasium finds."""
    module, colon, path = name.partition(":")
    if not colon or path in gymnasium.registry:
        return None
    found: Any = importlib.import_module(module)  # it may register the id
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, gymnasium.Env) else None


def _not_made(name: str, kwargs: Mapping[str, Any], error: Exception) -> ArgumentError:
    given = f" with {kwargs}" if kwargs else ""
    message = f"{name} could not be made{given}: {type(error).__name__}: {error}"
    return ArgumentError(message, "kwargs" if kwargs else "env_id", kwargs or name)


def _advice(name: str, otherwise: str) -> str:
    spec = gymnasium.registry.get(name)
    where = str(spec.entry_point if spec else "")
    where = next((module for start, module in _NAMESPACES.items() if name.startswith(start)), where)
    extra = next((extra for module, extra in _EXTRAS.items() if where.startswith(module)), None)
    return f"pip install 'axonrl[{extra}]'" if extra else otherwise


def _from_spec(spec: EnvSpec) -> AnyEnv:
    spec = copy.deepcopy(spec)
    for argument in VECTOR_ARGUMENTS:
        spec.kwargs.pop(argument, None)
    if spec.kwargs.get("render_mode") == "human":
        del spec.kwargs["render_mode"]  # one window is enough
    steps = spec.kwargs.pop("max_episode_steps", None) if spec.vector_entry_point is not None else None
    return _make_one(spec, {} if steps is None else {"max_episode_steps": steps})


def _pass_env(env: AnyEnv | AnyVectorEnv, why: str) -> ArgumentError:
    return ArgumentError(f"cannot make another environment like {env}: {why}; pass env instead", "env", env)
