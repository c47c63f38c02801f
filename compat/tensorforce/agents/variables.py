"""The variables of an agent, under Tensorforce's names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ....core.checks import did_you_mean
from ....core.protocols import Array
from ..spaces.errors import TensorforceError, refuse
from ..spaces.readers import as_array

if TYPE_CHECKING:
    from .protocol import ActObserve

COUNTERS: Final = {"global-timestep": "timesteps", "global-episode": "episodes", "global-update": "updates"}
"""Names that an agent's counters have among the variables, and its attributes."""
_SHOWN: Final = {"kernel": "weights"}
"""The last part of a variable's name in Keras, and in Tensorforce where that is another."""


def shown(name: str) -> str:
    """A variable's name as it is shown: without the number that orders them, and a layer's own name as it was given."""
    plain = re.sub(r"(_\d+)\.(?=_|/|$)", r"\1", re.sub(r"^\d+\.", "", name))
    path, slash, last = plain.rpartition("/")
    return f"{path}{slash}{_SHOWN.get(last, last)}"


def by_shown_name(names: Iterable[str]) -> dict[str, str]:
    """Names as they are shown to those of the executor; where several would be shown alike, they keep their numbers."""
    names = list(names)
    alike = Counter(map(shown, names))
    return {shown(name) if alike[shown(name)] == 1 else name: name for name in names}


def names(agent: ActObserve) -> list[str]:
    """All names, sorted."""
    return sorted([*_weights(agent), *COUNTERS])


def get(agent: ActObserve, name: Any) -> Array:
    """See :meth:`.agent.LearningAgent.get_variable`."""
    name = _known(agent, "Agent.get_variable", name)
    if name in COUNTERS:
        return np.array(getattr(agent, COUNTERS[name]), np.int64)
    return _weights(agent)[name]


def assign(agent: ActObserve, name: Any, value: Any) -> None:
    """See :meth:`.agent.LearningAgent.assign_variable`."""
    where = "Agent.assign_variable"
    name = _known(agent, where, name)
    own = get(agent, name)
    array = as_array(f"{where}: value", value)
    same_kind = array.dtype.kind in ("fiu" if own.dtype.kind == "f" else "iu")
    if same_kind and array.shape == own.shape:
        with np.errstate(over="ignore"):
            array = array.astype(own.dtype)
    if not same_kind or array.shape != own.shape or not np.isfinite(array).all():
        refuse(
            f"{where}: value",
            f"of {name} must be finite {own.dtype} of shape {own.shape}, got {array.dtype} of shape {array.shape}",
            value,
        )
    if name in COUNTERS:
        if array < 0:
            refuse(f"{where}: value", f"of {name} must be at least 0, got {array}", value)
        setattr(agent, COUNTERS[name], int(array))
        return
    executor = agent.executor
    weights = executor.get_weights()
    inside = by_shown_name(weights)
    executor.set_weights({**weights, inside[name]: array})


def _weights(agent: ActObserve) -> Mapping[str, Array]:
    executor = agent.executor
    weights = {} if executor is None else executor.get_weights()
    return {name: weights[own] for name, own in by_shown_name(weights).items()}


def _known(agent: ActObserve, where: str, name: Any) -> str:
    every = names(agent)
    found = str(name).removeprefix("agent/")
    if found not in every:
        raise TensorforceError(
            f"{where}: there is no variable {name!r}{did_you_mean(found, every)}; get_variables() lists all",
            "variable",
            name,
        )
    return found
