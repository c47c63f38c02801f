"""The state of an agent: its complete state, or its variables under Tensorforce's names."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ....core.checks import did_you_mean
from ....core.protocols import Array, ArraySpec, State
from ....policies.executors import check_weights
from ....run_dir.snapshot import Counters
from ...common.specs.argument_checks import as_json
from ..spaces.errors import TensorforceError, as_array, refuse
from .companions import AgentCore
from .files import TENSORFLOW, Saved, read_content

if TYPE_CHECKING:
    from ..processing.parameters import Parameter
    from .learner import Learner

logger = logging.getLogger("axonrl")
COUNTERS: Final = {"global-timestep": "timesteps", "global-episode": "episodes", "global-update": "updates"}
"""Names of an agent's counters among the variables, and its attributes."""


def take_over(where: str, agent: AgentCore, saved: Saved) -> None:
    """Restore an agent from a saved one.

    Raises:
        TensorforceError: it is of another kind of agent, or damaged.
    """
    content = read_content(where, saved)
    (load_state if saved.format == TENSORFLOW else load_variables)(where, agent, content)


# -- everything -------------------------------------------------------------------------------------------------------


def state_of(agent: AgentCore) -> dict[str, Any]:
    """The state of an agent, without unfinished episodes; the agent does not change."""
    learning, parameters = agent.learning, _parameters(agent)
    return {
        "kind": agent.kind,
        "counters": {name: getattr(agent, name) for name in COUNTERS.values()},
        "generators": {name: rng.bit_generator.state for name, rng in _generators(agent).items()},
        "parameters": {name: one.state_dict() for name, one in parameters.items()},
        "preprocessing": {"spec": _preprocessing(agent), "all": agent.preprocessing.state_dict()},
        "learning": None
        if learning is None
        else {
            "weights": learning.stepper.weights(),
            "counters": dataclasses.asdict(learning.stepper.counters),
            "loss": learning.loss,
            "horizon": learning.memory.horizon,
            "memory": learning.memory.state_dict(),
            "memory_settings": _memory_settings(learning),
        },
    }


def load_state(where: str, agent: AgentCore, state: State) -> None:
    """Restore what :func:`state_of` returned, possibly for an agent with other settings.

    A memory and statistics of preprocessing that do not fit the settings are reset, which is logged.

    Raises:
        TensorforceError: the variables differ.
    """
    if state["kind"] != agent.kind:
        refuse(f"{where}: agent", f"must be {state['kind']!r}, as it was saved; got {agent.kind!r}", agent.kind)
    learning, saved = agent.learning, state["learning"]
    same_preprocessing = state["preprocessing"]["spec"] == _preprocessing(agent)
    if learning is not None and saved is not None:
        _set_weights(where, learning, saved["weights"])
        learning.stepper.counters = Counters(**saved["counters"])
        learning.loss = saved["loss"]
        learning.memory.horizon = saved["horizon"]
        learning.memory.clear()
        try:
            if not same_preprocessing or saved["memory_settings"] != _memory_settings(learning):
                raise ValueError("timesteps and ends of episodes are stored differently")
            learning.memory.load_state_dict(saved["memory"])
        except ValueError as error:
            if len(saved["memory"]["last"]):
                changed = (
                    "The memory starts empty, because the saved one does not fit the agent's changed settings: %s."
                )
                logger.warning(changed, error)
    agent.preprocessing.load_state_dict(state["preprocessing"]["all"] if same_preprocessing else {})
    if not same_preprocessing:
        logger.warning("The preprocessing differs from the saved agent's: its statistics start over.")
    for name, value in state["counters"].items():
        setattr(agent, name, value)
    for name, rng in _generators(agent).items():
        if name in state["generators"]:
            rng.bit_generator.state = state["generators"][name]
    for name, parameter in _parameters(agent).items():
        parameter.load_state_dict(state["parameters"].get(name, {}))


def _memory_settings(learning: Learner) -> dict[str, Any]:
    """Settings that determine how ends of episodes are stored."""
    estimates_end = learning.bootstraps and learning.form["reward_estimation"]["estimate_terminal"]
    return {"bootstraps": learning.bootstraps, "estimate_terminal": bool(estimates_end)}


def _set_weights(where: str, learning: Learner, weights: Mapping[str, Array]) -> None:
    """Set all variables; their names must be equal."""
    own = {name: ArraySpec(array.shape, array.dtype) for name, array in learning.stepper.weights().items()}
    try:
        check_weights("the agent with these arguments", weights, own, own)
    except ValueError as error:
        refuse(f"{where}: filename", f"names an agent with other variables: {error}")
    learning.stepper.set_weights({name: weights[name] for name in own})


def _generators(agent: AgentCore) -> dict[str, np.random.Generator]:
    """All random generators of the agent, by name."""
    acting, learning = agent.acting, agent.learning
    found = {"act": acting.rng, "act-independently": acting.independent_rng, "parameters": acting.parameter_rng}
    return found if learning is None else {**found, "update-parameters": learning.rng, **learning.stepper.generators}


def _preprocessing(agent: AgentCore) -> Any:
    """Layers of preprocessing, after a round trip through JSON."""
    return as_json("preprocessing", agent.preprocessing.spec)


def _parameters(agent: AgentCore) -> dict[str, Parameter]:
    """All parameters that may be stateful, by name."""
    return {**agent.acting.parameters, **({} if agent.learning is None else agent.learning.parameters)}


# -- variables --------------------------------------------------------------------------------------------------------


def shown_name(name: str) -> str:
    """A variable's shown name: without its ordering number, and with a layer's name as the user gave it."""
    plain = re.sub(r"(_\d+)\.(?=_|/|$)", r"\1", re.sub(r"^\d+\.", "", name))
    return re.sub(r"(^|/)kernel$", r"\1weights", plain)


def by_shown_name(names: Iterable[str]) -> dict[str, str]:
    """The executor's names by shown name; names that would be shown alike keep their numbers."""
    names = list(names)
    alike = Counter(map(shown_name, names))
    return {shown_name(name) if alike[shown_name(name)] == 1 else name: name for name in names}


def variables(agent: AgentCore) -> dict[str, Array]:
    """Variables, those of the optimizer, and the counters, by shown name."""
    weights = {} if agent.executor is None else agent.executor.get_weights()
    counters = {shown_name: np.array(getattr(agent, name), np.int64) for shown_name, name in COUNTERS.items()}
    return {**{name: weights[own] for name, own in by_shown_name(weights).items()}, **counters}


def known_variable(where: str, agent: AgentCore, name: Any) -> tuple[str, Array]:
    """A variable's name and value, with or without the prefix ``agent/``; TensorforceError if unknown."""
    found, every = str(name).removeprefix("agent/"), variables(agent)
    if found not in every:
        problem = f"{where}: there is no variable {name!r}{did_you_mean(found, every)}; get_variables() lists all"
        raise TensorforceError(problem, "variable", name)
    return found, every[found]


def assign(where: str, agent: AgentCore, name: Any, value: Any) -> None:
    """See :meth:`.agent.Agent.assign_variable`."""
    name, own = known_variable(where, agent, name)
    array = as_array(f"{where}: value", value)
    fits = array.dtype.kind in ("fiu" if own.dtype.kind == "f" else "iu") and array.shape == own.shape
    with np.errstate(over="ignore"):
        converted = array.astype(own.dtype) if fits else array
    if not fits or not np.isfinite(converted).all():
        problem = f"of {name} must be finite {own.dtype} of shape {own.shape}"
        refuse(f"{where}: value", f"{problem}, got {array.dtype} of shape {array.shape}", value)
    if name not in COUNTERS:
        weights = agent.executor.get_weights()
        agent.executor.set_weights({**weights, by_shown_name(weights)[name]: converted})
        return
    if converted < 0:
        refuse(f"{where}: value", f"of {name} must be at least 0, got {array}", value)
    setattr(agent, COUNTERS[name], int(converted))


def load_variables(where: str, agent: AgentCore, given: Mapping[str, Array]) -> None:
    """Restore variables by shown name. The memory starts empty.

    Raises:
        TensorforceError: the variables differ.
    """
    counters = {}
    for shown_name, name in COUNTERS.items():
        count = given.get(shown_name)
        if count is None or count.dtype.kind not in "iu" or count.shape != () or count < 0:
            refuse(f"{where}: filename", f"is not a saved agent: it lacks the counter {shown_name!r}", count)
        counters[name] = int(count)
    weights = {name: array for name, array in given.items() if name not in COUNTERS}
    learning = agent.learning
    if learning is not None:
        inside = by_shown_name(learning.stepper.weights())
        _set_weights(where, learning, {inside.get(name, name): array for name, array in weights.items()})
        learning.stepper.counters.global_step = counters["updates"]
        learning.memory.clear()
    elif weights:
        refuse(f"{where}: agent", f"is {agent.kind!r}, which has no variables, but the file has", agent.kind)
    for name, value in counters.items():
        setattr(agent, name, value)
