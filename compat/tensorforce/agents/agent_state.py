"""What an agent's acting and learning follow from, as a value: all of it, or the variables under their shown names."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.protocols import Array, State
from ....run_dir.snapshot import Counters
from ..spaces.errors import refuse
from .actors import ModelActing
from .saved_files import TENSORFLOW, Saved
from .variables import COUNTERS, by_shown_name, shown

if TYPE_CHECKING:
    from ..processing.parameters import Parameter
    from .learner import Learner
    from .protocol import ActObserve

logger = logging.getLogger("axonrl")


def take_over(where: str, agent: ActObserve, saved: Saved, content: Any) -> None:
    """Take over what ``saved_files.read_content`` read.

    Raises:
        TensorforceError: it is of another agent.
    """
    (load_state if saved.format == TENSORFLOW else load_variables)(where, agent, content)


# -- everything -------------------------------------------------------------------------------------------------------


def state_of(agent: ActObserve) -> dict[str, Any]:
    """Everything but episodes that are not over; the agent is left as it is."""
    learning = agent.learning
    return {
        "kind": agent.kind,
        "counters": {name: getattr(agent, name) for name in COUNTERS.values()},
        "generators": {name: rng.bit_generator.state for name, rng in _generators(agent).items()},
        "parameters": {name: one.state_dict() for name, one in _parameters(agent).items()},
        "preprocessing": {
            "spec": _plain(agent.preprocessing.spec),
            "all": agent.preprocessing.state_dict(),
        },
        "learning": None if learning is None else _learning_state(learning),
    }


def load_state(where: str, agent: ActObserve, state: State) -> None:
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
    same_preprocessing = state["preprocessing"]["spec"] == _plain(agent.preprocessing.spec)
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
    """What decides how ends of episodes are stored."""
    estimates_end = learning.bootstraps and learning.form["reward_estimation"]["estimate_terminal"]
    return {"bootstraps": learning.bootstraps, "estimate_terminal": bool(estimates_end)}


def _load_memory(learning: Learner, saved: State, same_preprocessing: bool) -> None:
    memory, content = learning.memory, saved["memory"]
    fits = (
        same_preprocessing
        and saved["memory_settings"] == _memory_settings(learning)
        and _columns(content) == _columns(memory.state_dict())
    )
    lengths = content["last"] - content["start"] + 1
    if memory.batches.episodes and lengths.max(initial=0) > memory.batches.longest:
        fits = False
    if fits:
        memory.load_state_dict(content)
    elif len(lengths):
        logger.warning("The saved memory does not fit the agent's settings, which have changed: it begins empty.")


def _columns(content: State) -> dict[str, Any]:
    """Shapes and dtypes of what a memory holds of each timestep."""
    return {
        group: {name: (array.shape[1:], array.dtype) for name, array in content[group].items()}
        for group in ("observation", "action", "state")
    }


def _set_weights(where: str, learning: Learner, weights: Mapping[str, Array]) -> None:
    """Set all variables, which must be the very ones."""
    own = learning.stepper.weights()
    missing, unknown = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing or unknown:
        refuse(
            f"{where}: filename",
            "names an agent with other variables: "
            f"{_few(unknown)} only there, {_few(missing)} only in the agent with these arguments",
        )
    for name, array in own.items():
        given = weights[name]
        if (given.shape, given.dtype) != (array.shape, array.dtype):
            has = f"{array.dtype} of shape {array.shape} in the agent with these arguments"
            refuse(
                f"{where}: filename", f"has {shown(name)} as {given.dtype} of shape {given.shape}; it is {has}", name
            )
    learning.stepper.set_weights({name: weights[name] for name in own})


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (" ..." if len(names) > 4 else "") if names else "none"


def _generators(agent: ActObserve) -> dict[str, np.random.Generator]:
    """All that the agent draws from, by name."""
    core, learning = agent.core, agent.learning
    found = {"act": core.rng, "act-independently": core.independent_rng}
    if isinstance(core, ModelActing):
        found["parameters"] = core.parameter_rng
    if learning is not None:
        found |= {"update-parameters": learning.rng, **learning.stepper.generators}
    return found


def _parameters(agent: ActObserve) -> dict[str, Parameter]:
    """All numbers that may have a state of their own, by name."""
    core, learning = agent.core, agent.learning
    found = dict(core.parameters()) if isinstance(core, ModelActing) else {}
    if learning is not None:
        found |= {"update/horizon": learning.horizon, "update/discount": learning.discount}
        found |= {f"update/{path}": one for path, one in learning.hyper.items()}
        if learning.frequency is not None:
            found["update/frequency"] = learning.frequency
    return found


def _plain(spec: Any) -> Any:
    """Lists and dictionaries of their own, as JSON gives them back."""
    if isinstance(spec, Mapping):
        return {key: _plain(part) for key, part in spec.items()}
    return [_plain(part) for part in spec] if isinstance(spec, list | tuple) else spec


# -- variables --------------------------------------------------------------------------------------------------------


def variables_of(agent: ActObserve) -> dict[str, Array]:
    """Variables, those of the optimizer and the counters, by the names that ``get_variables`` lists."""
    weights = {} if agent.learning is None else agent.learning.stepper.weights()
    counters = {shown_name: np.array(getattr(agent, name), np.int64) for shown_name, name in COUNTERS.items()}
    return {**{name: weights[own] for name, own in by_shown_name(weights).items()}, **counters}


def load_variables(where: str, agent: ActObserve, given: Mapping[str, Array]) -> None:
    """Take over what :func:`variables_of` returned. The memory begins empty.

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
