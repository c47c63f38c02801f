"""API methods of RLgraph's graph, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping
from typing import Any, Final, NoReturn

import numpy as np

from ..utils.rlgraph_errors import RLGraphError, choice, integer, refuse, refuse_unknown
from .results import Loss

_INPUT_SPACES: Final = {"preprocessed_states": "states", "policy_weights": "weights"}
"""Other names of parameters of API methods."""


def call(where: str, methods: Mapping[str, Callable[..., Any]], op: str, inputs: Any, return_ops: Any) -> Any:
    """Call an API method by name."""
    method = methods[choice(f"{where}: op", op, methods)]
    takes = inspect.signature(method)
    given, by_space = _inputs(inputs, takes.parameters)
    refuse_unknown(f"{where}: inputs of {op!r}", by_space, takes.parameters, what="input space")
    try:
        takes.bind(*given, **by_space)
    except TypeError as error:
        raise RLGraphError(f"{where}: inputs of {op!r} do not fit: {error}", "inputs", inputs) from error
    found = method(*given, **by_space)
    if return_ops is None:
        return found
    indices = return_ops if isinstance(return_ops, list | tuple | set | frozenset) else [return_ops]
    parts = tuple(found) if isinstance(found, tuple | Loss) else (found,)
    if not all(isinstance(index, int) and 0 <= index < len(parts) for index in indices):
        refuse(f"{where}: return_ops", f"must be indices in 0 .. {len(parts) - 1}, got {return_ops!r}", return_ops)
    chosen = tuple(parts[index] for index in sorted(indices))
    return chosen[0] if len(chosen) == 1 else chosen


def of_all(agent: Any) -> dict[str, Callable[..., Any]]:
    """API methods of all agents, by name."""

    def at_time(time_step: Any, states: Any, use_exploration: Any, preprocess: bool, extras: Any) -> Any:
        """Act at a given timestep; None: the current one. ActorCriticAgent's method had no ``time_step``."""
        if isinstance(time_step, bool | np.bool_):
            time_step, use_exploration = None, time_step
        if time_step is None:
            time_step = agent.timesteps
        elif not isinstance(time_step, np.ndarray) or time_step.shape:
            time_step = integer(f"{type(agent).__name__}.call_api_method: time_step", time_step, at_least=0)
        time_step = int(time_step)
        return agent.act(states, None, bool(use_exploration), preprocess, extras, time_step=time_step)

    def reset_preprocessor() -> None:
        agent.preprocessor.reset()

    def state_and_action(states: Any, time_step: Any = None, use_exploration: Any = True) -> Any:
        action, seen = at_time(time_step, states, use_exploration, True, "preprocessed_states")
        return seen, action

    def action_from_preprocessed(states: Any, time_step: Any = None, use_exploration: Any = True) -> Any:
        return states, at_time(time_step, states, use_exploration, False, None)

    def insert_records(states: Any, actions: Any, rewards: Any, next_states: Any, terminals: Any) -> Any:
        given = {"states": states, "actions": actions, "rewards": rewards}
        return agent.import_observations({**given, "terminals": terminals, "next_states": next_states})

    def update_from_batch(
        states: Any,
        actions: Any,
        rewards: Any,
        terminals: Any,
        next_states: Any = None,
        importance_weights: Any = None,
    ) -> Any:
        given = {"states": states, "actions": actions, "rewards": rewards, "terminals": terminals}
        more = {"next_states": next_states, "importance_weights": importance_weights}
        return agent.update({**given, **{name: value for name, value in more.items() if value is not None}})

    return {
        "get_policy_weights": agent.get_policy_weights,
        "set_policy_weights": agent.set_policy_weights,
        "preprocess_states": agent.preprocess_states,
        "reset_preprocessor": reset_preprocessor,
        "get_preprocessed_state_and_action": state_and_action,
        "action_from_preprocessed_state": action_from_preprocessed,
        "insert_records": insert_records,
        "update_from_memory": agent.update,
        "update_from_external_batch": update_from_batch,
    }


def refused_method(name: str) -> Callable[..., NoReturn]:
    """A method that needs RLgraph's graph, which does not exist here."""

    def method(self: Any, *_: Any, **__: Any) -> NoReturn:
        """Refused."""
        problem = "there are no components: axonrl traces a model function instead, see docs/model_fn.md"
        raise RLGraphError(f"{type(self).__name__}.{name}: {problem}", name)

    return method


def _inputs(inputs: Any, parameters: Container[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional inputs, and inputs by input space if a dictionary has the name of a parameter."""
    if inputs is None or isinstance(inputs, list | tuple):
        return list(inputs or ()), {}
    if isinstance(inputs, Mapping):
        named = {str(_INPUT_SPACES.get(name, name)): value for name, value in inputs.items()}
        if any(name in parameters for name in named):
            return [], named
    return [inputs], {}
