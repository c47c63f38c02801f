"""The state of an agent's acting and learning, as a value: all of it, or the variables under their shown names."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....policies.executors import check_weights
from ....run_dir.snapshot import Counters
from ...common.specs.argument_checks import as_json
from ..spaces.errors import refuse
from .saved_files import TENSORFLOW, Saved, find, read_content
from .variables import COUNTERS, by_shown_name

if TYPE_CHECKING:
    from ..processing.parameters import Parameter
    from .companions import Agent
    from .learner import Learner

logger = logging.getLogger("axonrl")


def restore(where: str, agent: Agent, directory: Any, filename: Any, format: str | None) -> None:
    """See :meth:`.agent.Agent.restore`."""
    take_over(where, agent, find(where, *place_of(agent, directory, filename), format))


def place_of(agent: Agent, directory: Any, filename: Any) -> tuple[Any, Any]:
    """A directory and a file name; those that are None are the saver's, else ``.`` and the agent's name."""
    given = agent.arguments.get("saver")
    saver = given if isinstance(given, Mapping) else {}
    directory = saver.get("directory", ".") if directory is None else directory
    return directory, saver.get("filename", agent.name) if filename is None else filename


def take_over(where: str, agent: Agent, saved: Saved) -> None:
    """Take over a saved agent.

    Raises:
        TensorforceError: it is of another agent, or damaged.
    """
    content = read_content(where, saved)
    (load_state if saved.format == TENSORFLOW else load_variables)(where, agent, content)


# -- everything -------------------------------------------------------------------------------------------------------


def state_of(agent: Agent) -> dict[str, Any]:
    """Everything but episodes that are not over; the agent is left as it is."""
    learning, parameters = agent.learning, _parameters(agent)
    return {
        "kind": agent.kind,
        "counters": {name: getattr(agent, name) for name in COUNTERS.values()},
        "generators": {name: rng.bit_generator.state for name, rng in _generators(agent).items()},
        "parameters": {name: one.state_dict() for name, one in parameters.items()},
        "preprocessing": {
            "spec": _preprocessing(agent),
            "all": agent.preprocessing.state_dict(),
        },
        "learning": None if learning is None else _learning_state(learning),
    }


def load_state(where: str, agent: Agent, state: State) -> None:
    """Take over what :func:`state_of` returned, of an agent whose settings may have been others.

    What does not fit other settings begins anew, and the log says so: the memory, and statistics of preprocessing.

    Args:
        where: for messages.
        agent: a new one.
        state: of an agent with the same variables.

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
        _load_memory(learning, saved, same_preprocessing)
    if same_preprocessing:
        agent.preprocessing.load_state_dict(state["preprocessing"]["all"])
    else:
        logger.warning("The preprocessing is another one than that of the saved agent: its statistics begin anew.")
    for name, value in state["counters"].items():
        setattr(agent, name, value)
    for name, rng in _generators(agent).items():
        if name in state["generators"]:
            rng.bit_generator.state = state["generators"][name]
    for name, parameter in _parameters(agent).items():
        if name in state["parameters"]:
            parameter.load_state_dict(state["parameters"][name])


def _learning_state(learning: Learner) -> dict[str, Any]:
    return {
        "weights": learning.stepper.weights(),
        "counters": dataclasses.asdict(learning.stepper.counters),
        "loss": learning.loss,
        "horizon": learning.memory.horizon,
        "memory": learning.memory.state_dict(),
        "memory_settings": _memory_settings(learning),
    }


def _memory_settings(learning: Learner) -> dict[str, Any]:
    """Settings of how ends of episodes are stored."""
    estimates_end = learning.bootstraps and learning.form["reward_estimation"]["estimate_terminal"]
    return {"bootstraps": learning.bootstraps, "estimate_terminal": bool(estimates_end)}


def _load_memory(learning: Learner, saved: State, same_preprocessing: bool) -> None:
    try:
        if not same_preprocessing or saved["memory_settings"] != _memory_settings(learning):
            raise ValueError("timesteps and their ends are stored in another way")
        learning.memory.load_state_dict(saved["memory"])
    except ValueError as error:
        if len(saved["memory"]["last"]):
            changed = "The saved memory does not fit the agent's settings, which have changed, and begins empty: %s."
            logger.warning(changed, error)


def _set_weights(where: str, learning: Learner, weights: Mapping[str, Array]) -> None:
    """Set all variables, which must be the very ones."""
    own = {name: ArraySpec(array.shape, array.dtype) for name, array in learning.stepper.weights().items()}
    try:
        check_weights("the agent with these arguments", weights, own, own)
    except ValueError as error:
        refuse(f"{where}: filename", f"names an agent with other variables: {error}")
    learning.stepper.set_weights({name: weights[name] for name in own})


def _generators(agent: Agent) -> dict[str, np.random.Generator]:
    """All that the agent draws from, by name."""
    acting, learning = agent.acting, agent.learning
    found = {"act": acting.rng, "act-independently": acting.independent_rng, "parameters": acting.parameter_rng}
    if learning is not None:
        found |= {"update-parameters": learning.rng, **learning.stepper.generators}
    return found


def _preprocessing(agent: Agent) -> Any:
    """Its layers, as JSON gives them back."""
    return as_json("preprocessing", agent.preprocessing.spec)


def _parameters(agent: Agent) -> dict[str, Parameter]:
    """All numbers that may have a state of their own, by name."""
    return {**agent.acting.parameters, **({} if agent.learning is None else agent.learning.parameters)}


# -- variables --------------------------------------------------------------------------------------------------------


def load_variables(where: str, agent: Agent, given: Mapping[str, Array]) -> None:
    """Take over variables by shown name. The memory begins empty.

    Args:
        where: for messages.
        agent: a new one.
        given: of an agent with the same variables.

    Raises:
        TensorforceError: the variables differ.
    """
    counters = {}
    for shown_name, name in COUNTERS.items():
        count = given.get(shown_name)
        if count is None or count.dtype.kind not in "iu" or count.shape != () or count < 0:
            refuse(f"{where}: filename", f"names a file without the counter {shown_name!r}: no saved agent", count)
        counters[name] = int(count)
    weights = {name: array for name, array in given.items() if name not in COUNTERS}
    learning = agent.learning
    if learning is not None:
        inside = by_shown_name(learning.stepper.weights())
        _set_weights(where, learning, {inside.get(name, name): array for name, array in weights.items()})
        learning.stepper.counters.global_step = counters["updates"]
    elif weights:
        refuse(f"{where}: agent", f"is {agent.kind!r}, which has no variables; the file has some", agent.kind)
    for name, value in counters.items():
        setattr(agent, name, value)
