"""Creates the Gymnasium environment for the arguments of ``OpenAIGymEnv``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ....core.checks import shortened
from ....core.errors import ArgumentError
from ...common.gymnasium_ids import registered_id
from ..spaces import BoxSpace, IntBox, Space
from ..utils.rlgraph_errors import RLGraphError, RLGraphWarning, refuse, translate_errors

if TYPE_CHECKING:
    import gymnasium

    from ...common.gymnasium_values import Codec

Skip: TypeAlias = "int | tuple[int, int] | None"
AnyEnv: TypeAlias = "gymnasium.Env[Any, Any]"
_WHERE: Final = "OpenAIGymEnv"
_NO_SKIP: Final = "NoFrameskip"
"""Part of the ids of games without frame skipping."""


def open_environment(given: Any, skip: Skip, show: bool, kwargs: Mapping[str, Any]) -> tuple[AnyEnv, Skip, bool]:
    """The environment, how often actions are repeated outside of it, and whether a state is the maximum of two frames.

    Raises:
        RLGraphError: the id is unknown, or the environment does not take an argument.
    """
    import gymnasium

    if isinstance(given, str):
        return _make_by_id(given, skip, show, dict(kwargs))
    if not isinstance(given, gymnasium.Env):
        refuse(f"{_WHERE}: gym_env", f"must be an id or a gymnasium.Env, got {shortened(given)}", given)
    if kwargs:
        name = next(iter(kwargs))
        refuse(f"{_WHERE}: {name}", "needs an id; an environment object has its arguments already", kwargs[name])
    if show and given.render_mode != "human":
        text = f"{_WHERE}: visualize has no effect: make the environment object with render_mode='human'"
        warnings.warn(text, RLGraphWarning, stacklevel=3)
    return given, skip, _shows_each_frame(given)


def _make_by_id(given: str, skip: Skip, show: bool, kwargs: dict[str, Any]) -> tuple[AnyEnv, Skip, bool]:
    import gymnasium

    from ....environments import make

    found, versioned = registered_id(given)
    if versioned and found != given:
        text = f"{_WHERE}: Gymnasium no longer has {given}: using {found}, whose results may differ"
        warnings.warn(text, RLGraphWarning, stacklevel=4)
    if show and _has_no_display():
        text = f"{_WHERE}: visualize has no effect: there is no display"
        warnings.warn(text, RLGraphWarning, stacklevel=4)
    elif show:
        kwargs.setdefault("render_mode", "human")
    spec = gymnasium.registry.get(found.rpartition(":")[2])
    skips_itself = spec is not None and str(spec.entry_point).startswith("ale_py") and _NO_SKIP not in found
    if skip is not None and skips_itself:
        kwargs["frameskip"], skip = skip, None
    try:
        env = make(found, **kwargs)
    except ArgumentError as error:
        argument = "gym_env" if error.argument == "env_id" else error.argument
        raise RLGraphError(f"{_WHERE}: {error}", f"{_WHERE}: {argument}", error.value) from None
    return env, skip, _shows_each_frame(env)


def _shows_each_frame(env: AnyEnv) -> bool:
    return env.spec is not None and _NO_SKIP in env.spec.id


def _has_no_display() -> bool:
    """Is this Linux without a display server and without a driver in ``SDL_VIDEODRIVER``?"""
    has_driver = "SDL_VIDEODRIVER" in os.environ
    return sys.platform == "linux" and not (
        has_driver or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def values_of(ours: Space, theirs: Any) -> Codec:
    """Codec between values of a Gymnasium space and ours, which differ only in dtypes.

    Raises:
        RLGraphError: the space is not supported; or, when read, an integer does not fit the dtype.
    """
    from ....environments.spaces import leaves
    from ...common.gymnasium_values import Codec, Values

    def codec(box: BoxSpace, space: Any) -> Codec:
        def read(value: Any) -> Any:
            if is_number and type(value) in (int, np.int64) and value in numbers:  # the usual ones, fast
                return box.dtype.type(value)
            array = given = np.array(value, box.dtype if box.dtype.kind == "f" else None)
            if given.dtype != box.dtype:
                with np.errstate(invalid="ignore"):
                    array = given.astype(box.dtype)
                if not np.array_equal(array, given):
                    refuse(f"{_WHERE}: state", f"must hold numbers of {box.dtype}, got {shortened(value)}", value)
            return array[()]

        def write(value: Any) -> Any:
            array = np.asarray(value, space.dtype)
            # Ours are float32, which rounds bounds.
            return np.asarray(np.clip(array, space.low, space.high)) if space.dtype == np.float64 else array

        is_number = isinstance(box, IntBox) and box.shape == ()
        numbers = range(int(box.low), int(box.high)) if is_number else range(0)
        return Codec(read, int if is_number else write)

    flat = ours.flat()
    with translate_errors(_WHERE):
        codecs = {leaf.name: codec(flat[leaf.name], leaf.space) for leaf in leaves(theirs)}
    if "" in codecs:  # at every timestep
        return codecs[""]
    values = Values(theirs, codecs)
    return Codec(lambda value: ours.unflatten(values.read(value)), lambda value: values.write(ours.flatten(value)))
