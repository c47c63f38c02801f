"""Lists of wrappers: by name, or ``package.module:Wrapper`` for any other wrapper."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import gymnasium
from gymnasium.envs.registration import WrapperSpec
from gymnasium.utils import RecordConstructorArgs

from ..core import registry
from ..core.checks import did_you_mean, plain
from ..core.errors import ArgumentError
from . import wrappers
from .batched import AnyEnv
from .normalizers import Normalizers
from .spaces import AnySpace

Given: TypeAlias = "str | Mapping[str, Any]"
"""A wrapper in a list: its name, or ``{"kind": name, argument: value, ...}``; a name may be ``package.module:name``."""


class WrapperError(ArgumentError):
    """A wrapper is invalid or does not fit; ``argument`` is ``"wrappers[<index>].<key>"``.

    Args:
        message: the reason.
        index: index in the list of wrappers.
        key: the argument at fault, or ``"kind"``, if known.
        value: what was given.
    """

    def __init__(self, message: str, index: int, key: str | None = None, value: object = None) -> None:
        super().__init__(message, f"wrappers[{index}]" + (f".{key}" if key else ""), value)
        self.args = (message, index, key, value)  # for pickling
        self.index = index
        self.key = key


_AROUND_EACH: Final[Mapping[str, Callable[..., AnyEnv]]] = {
    function.__name__: function
    for function in (
        *(wrappers.time_limit, wrappers.frame_stack, wrappers.atari, wrappers.rescale_action),
        *(wrappers.channels_first, wrappers.channels_last, wrappers.mask_from_info, wrappers.select_observation),
    )
}
_AROUND_ALL: Final[Mapping[str, Callable[..., Any]]] = {
    function.__name__: function for function in (wrappers.normalize_observation, wrappers.normalize_reward)
}
_UNSEEN: Final = ("time_limit", "rescale_action")
"""Wrappers that change neither observations nor rewards: they may also be listed after normalisation."""
NAMES: Final = (*_AROUND_ALL, *_AROUND_EACH)
_ELSEWHERE: Final = {
    "AtariPreprocessing": "atari",
    "AtariWrapper": "atari",
    "FrameStackObservation": "frame_stack",
    "VecFrameStack": "frame_stack",
    "VecNormalize": "normalize_observation",
    "VecTransposeImage": "channels_first",
    "ActionMasker": "mask_from_info",
}
"""Classes of Gymnasium and Stable-Baselines3 whose names resemble another wrapper more than the right one."""


class Imported(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A wrapper by ``package.module:name``, in a form that Gymnasium can recreate from the environment's spec.

    Args:
        env: the environment.
        kind: ``package.module:name`` of a wrapper, called with the environment and its arguments.
        arguments: arguments of the wrapper.

    Raises:
        ArgumentError: the wrapper cannot be imported, or does not fit the environment.
    """

    def __init__(self, env: AnyEnv, kind: str, arguments: Mapping[str, Any]) -> None:
        RecordConstructorArgs.__init__(self, kind=kind, arguments=arguments)
        function = registry.find("wrapper", kind)
        try:
            made = function(env, **arguments)
        except Exception as error:  # including assertions in other packages' wrappers
            message = f"{kind} does not fit {env}: {type(error).__name__}: {error}"
            raise ArgumentError(message, "kind", kind) from error
        if not isinstance(made, gymnasium.Env):
            raise ArgumentError(f"{kind} must return a gymnasium.Env, got {type(made).__name__}", "kind", kind)
        gymnasium.Wrapper.__init__(self, made)
        if env.spec is not None:  # the inner environment's spec, with this wrapper in place of what it made
            own = WrapperSpec(type(self).__name__, f"{__name__}:{type(self).__name__}", self._saved_kwargs)
            self._cached_spec = copy.deepcopy(env.spec)
            self._cached_spec.additional_wrappers += (own,)


class Wrapping:
    """A checked list of wrappers, the innermost first.

    Raises:
        WrapperError: a name is unknown, an argument is unknown or missing, or the order is invalid.
    """

    def __init__(self, given: Sequence[Given]) -> None:
        if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
            message = f"wrappers must be a list of names and mappings with a kind, got {given!r}"
            raise ArgumentError(message, "wrappers", given)
        self.given: list[dict[str, Any]] = []
        """The wrappers, each ``{"kind": name, argument: value, ...}``."""
        self._each: list[tuple[int, str, dict[str, Any]]] = []
        self._all: dict[str, tuple[int, dict[str, Any]]] = {}
        for index, one in enumerate(given):
            name, arguments = _parse_wrapper(one, index)
            self.given.append({"kind": name, **arguments})
            if name in self._all:
                raise WrapperError(f"duplicate {name}", index, value=one)
            if name in _AROUND_ALL:
                self._all[name] = (index, arguments)
                continue
            if self._all and name not in _UNSEEN:
                others = " and ".join(self._all)
                raise WrapperError(f"{name} must come before {others}: normalisation is outermost", index, value=one)
            self._each.append((index, name, arguments))

    def wrap(self, env: AnyEnv) -> AnyEnv:
        """Wrap one copy in all wrappers but the normalisation; ``WrapperError`` if one does not fit."""
        for index, name, arguments in self._each:
            if name in _AROUND_EACH:
                env = _attempt(_AROUND_EACH[name], (env,), arguments, index)
                continue
            try:
                env = Imported(env, name, arguments)
            except ArgumentError as error:
                raise WrapperError(str(error), index, "kind", name) from error
        return env

    def refuse_around_each(
        self, what: str, but: Sequence[str] = (), otherwise: str = "use vectorization 'sync'"
    ) -> list[str]:
        """Refuse wrappers around copies that cannot be wrapped, except those whose work the copies do themselves.

        Args:
            what: the copies, for the message.
            but: names of the wrappers whose work the copies do.
            otherwise: what to do instead.

        Returns:
            The names in ``but`` that are in the list.

        Raises:
            WrapperError: the list has another wrapper around each copy, or a duplicate.
        """
        found: list[str] = []
        for index, name, _ in self._each:
            if name in but and name not in found:
                found.append(name)
                continue
            advice = "pass max_episode_steps to the environment (kwargs in a file)" if name == "time_limit" else ""
            message = f"{name} cannot be put around {what}; {advice or otherwise}"
            raise WrapperError(message, index, "kind", name)
        return found

    def normalizers(self, space: AnySpace, num_envs: int) -> Normalizers:
        """Normalisation of ``num_envs`` copies with these observations; ``WrapperError`` if unsuitable."""
        made = {
            name: _attempt(_AROUND_ALL[name], (space, num_envs), arguments, index)
            for name, (index, arguments) in self._all.items()
        }
        return Normalizers(made.get("normalize_observation"), made.get("normalize_reward"))


def _parse_wrapper(one: Any, index: int) -> tuple[str, dict[str, Any]]:
    arguments = {"kind": one} if isinstance(one, str) else plain(dict(one)) if isinstance(one, Mapping) else {}
    name = arguments.pop("kind", None)
    if name is None:
        raise WrapperError(f"a wrapper must be a name or a mapping with a kind, got {one!r}", index, value=one)
    takes, takes_others = _arguments(name, index)
    for argument in arguments:
        if argument not in takes and not takes_others:
            known = did_you_mean(argument, takes) or (f"; it takes {', '.join(takes)}" if takes else "")
            raise WrapperError(f"{name} takes no argument {argument!r}{known}", index, argument, arguments[argument])
    for argument, parameter in takes.items():
        if parameter.default is parameter.empty and argument not in arguments:
            raise WrapperError(f"{name} needs the argument {argument!r}", index)
    return name, arguments


def _arguments(name: Any, index: int) -> tuple[dict[str, inspect.Parameter], bool]:
    """The arguments that a wrapper takes besides the environment, and whether it takes any others."""
    if isinstance(name, str) and ":" in name:
        try:
            function = registry.find("wrapper", name)
        except ArgumentError as error:
            raise WrapperError(str(error), index, "kind", name) from error
        try:
            _, *parameters = inspect.signature(function).parameters.values()
        except ValueError as error:
            message = f"wrapper {name!r} must take the environment as its first argument"
            raise WrapperError(message, index, "kind", name) from error
        named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        return {one.name: one for one in named}, any(one.kind is one.VAR_KEYWORD for one in parameters)
    if name not in NAMES:
        known = did_you_mean(_ELSEWHERE.get(str(name), name), NAMES) or f"; there are {', '.join(NAMES)}"
        if not known.endswith("?"):
            known += "; write 'package.module:Wrapper' for another"
        raise WrapperError(f"unknown wrapper {name!r}{known}", index, "kind", name)
    function = _AROUND_EACH.get(name) or _AROUND_ALL[name]
    parameters = list(inspect.signature(function).parameters.values())
    return {one.name: one for one in parameters if one.kind is one.KEYWORD_ONLY}, False


def _attempt(function: Callable[..., Any], given: tuple[Any, ...], arguments: Mapping[str, Any], index: int) -> Any:
    """Call a wrapper's function; its errors become WrapperErrors, with the key of the argument at fault."""
    try:
        return function(*given, **arguments)
    except (TypeError, ValueError) as error:
        argument, value = (error.argument, error.value) if isinstance(error, ArgumentError) else (None, None)
        key = argument if argument in arguments else None
        raise WrapperError(f"{function.__name__}: {error}", index, key, value) from error
