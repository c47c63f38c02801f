"""The variables of an agent, under Tensorforce's names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from ....core.checks import did_you_mean
from ....core.protocols import Array
from ..spaces.errors import TensorforceError, as_array, refuse
from .companions import Agent

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


def values(agent: Agent) -> dict[str, Array]:
    """Variables, those of the optimizer, and the counters, by shown name."""
    weights = {} if agent.executor is None else agent.executor.get_weights()
    counters = {shown_name: np.array(getattr(agent, name), np.int64) for shown_name, name in COUNTERS.items()}
    return {**{name: weights[own] for name, own in by_shown_name(weights).items()}, **counters}


def known(where: str, agent: Agent, name: Any) -> str:
    """The name of a variable, also with ``agent/`` in front; TensorforceError if there is none."""
    found, every = str(name).removeprefix("agent/"), values(agent)
    if found not in every:
        near = did_you_mean(found, every)
        problem = f"{where}: there is no variable {name!r}{near}; get_variables() lists all"
        raise TensorforceError(problem, "variable", name)
    return found


def assign(where: str, agent: Agent, name: Any, value: Any) -> None:
    """See :meth:`.agent.Agent.assign_variable`."""
    name = known(where, agent, name)
    own = values(agent)[name]
    array = as_array(f"{where}: value", value)
    fits = array.dtype.kind in ("fiu" if own.dtype.kind == "f" else "iu") and array.shape == own.shape
    if fits:
        with np.errstate(over="ignore"):
            array = array.astype(own.dtype)
    if not fits or not np.isfinite(array).all():
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
    weights = agent.executor.get_weights()
    agent.executor.set_weights({**weights, by_shown_name(weights)[name]: array})
