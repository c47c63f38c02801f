"""The Agent: what its parts have, and creating from specifications, weights and API methods by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Mapping
from typing import Any, Final, NoReturn, TypeVar

import numpy as np

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ...common.specs.files import is_file_name
from ..specs.agent_tables import SUFFIXES
from ..specs.agents import AGENTS, is_role, kind_of, read_spec
from ..utils.modules import imported
from ..utils.rlgraph_errors import RLGraphError, choice, known, mapping, refuse
from .files import Files

Made = TypeVar("Made", bound="Agent")


def refused_method(name: str) -> Callable[..., NoReturn]:
    """A method of RLgraph's graph, which there is not."""

    def method(self: Any, *_: Any, **__: Any) -> NoReturn:
        """Refused."""
        problem = "there are no components: axonrl traces a model function instead, see docs/model_fn.md"
        raise RLGraphError(f"{type(self).__name__}.{name}: {problem}", name)

    return method


class Agent(Files):
    """An agent for a loop that its caller owns: ``get_action``, ``observe``, ``update``.

    It is abstract. DQNAgent and the others take its arguments by keyword, beside their own:

    Args:
        state_space: a Space, the specification of one, or one of Gymnasium's.
        action_space: likewise.
        discount: of future rewards, 0 .. 1.
        preprocessing_spec: a list of steps from states to what the model sees.
        network_spec: a list of layers.
        internal_states_space: of recurrent networks; it follows from the network.
        action_adapter_spec: from the network's output to values or probabilities of actions.
        exploration_spec: ``epsilon_spec`` or ``noise_spec``.
        execution_spec: ``seed``.
        optimizer_spec: ``type``, ``learning_rate`` and more.
        observe_spec: ``buffer_enabled``, ``buffer_size`` and ``n_step``.
        update_spec: when updates run and what they draw.
        summary_spec: ``directory`` for TensorBoard's ``loss``, ``epsilon`` and ``episode_reward``, written every
            ``save_steps`` timesteps, or ``save_secs`` = 120 seconds where that is None; ``summary_regexp`` selects.
        saver_spec: ``directory`` for checkpoints, written every ``save_steps`` timesteps, or ``save_secs`` = 600
            seconds where that is None, and at :meth:`terminate`; ``max_checkpoints`` = 5 are kept.
        auto_build: False: :meth:`build` is to follow.
        name: of the agent.

    Raises:
        RLGraphError: an argument is unknown, missing or wrong, or arguments do not fit each other.
    """

    # -- creation -----------------------------------------------------------------------------------------------------

    @classmethod
    def from_spec(cls: type[Made], spec: Any = None, **kwargs: Any) -> Made:
        """An agent from a specification.

        Args:
            spec: a dictionary with ``type``; the name of a JSON or YAML file with one; a key such as ``"dqn"``; a
                class; or an agent, which is returned. Of a subclass ``type`` may be left out.
            **kwargs: arguments, which win over those of the specification; that stays as it is.

        Raises:
            RLGraphError: it means no agent, or another one than this class.
        """
        where = f"{cls.__name__}.from_spec"
        if isinstance(spec, Agent):
            if kwargs:
                refuse(f"{where}: {next(iter(kwargs))}", "cannot be given: the agent exists already", kwargs)
            if not isinstance(spec, cls):
                refuse(f"{where}: spec", f"is a {type(spec).__name__}, not a {cls.__name__}", spec)
            return spec
        if isinstance(spec, Mapping) or spec is None or (isinstance(spec, str) and is_file_name(spec, SUFFIXES)):
            given = {} if spec is None else read_spec(f"{where}: spec", spec)
            kind = given.pop("type", None)
            kwargs = {**given, **kwargs}
        else:
            kind = spec
        if is_role(cls.kind, kind):
            kind, kwargs = None, {"type": kind, **kwargs}
        return cls._class_of(where, kind)(**kwargs)

    @classmethod
    def from_file(cls: type[Made], path: str, **kwargs: Any) -> Made:
        """As :meth:`from_spec`, of a file."""
        if not is_file_name(path, SUFFIXES):
            refuse(f"{cls.__name__}.from_file: path", f"must be the name of a {' or '.join(SUFFIXES)} file", path)
        return cls.from_spec(path, **kwargs)

    from_mixed = from_spec

    @classmethod
    def _class_of(cls: type[Made], where: str, kind: Any) -> type[Made]:
        """The agent's class of a key, a class, or its dotted name."""
        if kind is None:
            if cls.kind:
                return cls
            refuse(f"{where}: type", f"is missing: it must be one of {', '.join(AGENTS)}", None)
        found: Any = kind
        if isinstance(kind, str):
            place = f"{where}: type"
            found = cls.kinds[kind_of(place, kind)] if "." not in kind else imported(place, kind)
        if not isinstance(found, type) or not issubclass(found, Agent):
            refuse(f"{where}: type", f"must be a key, a class or an agent, got {kind!r:.200}", kind)
        if not issubclass(found, cls):
            refuse(f"{where}: type", f"is {found.__name__}, which is no {cls.__name__}", kind)
        return found

    # -- what some agents have ----------------------------------------------------------------------------------------

    @property
    def memory(self) -> Any:
        """The memory, whose length is the number of records; None of an agent without."""
        return None

    @property
    def last_memory_batch(self) -> dict[str, Any] | None:
        """The batch of the last update from the memory, of a DQNAgent that was asked to keep it."""
        return None

    @property
    def last_q_table(self) -> dict[str, Any] | None:
        """Its states and their values, likewise."""
        return None

    # -- weights ------------------------------------------------------------------------------------------------------

    @exclusive
    def get_weights(self) -> dict[str, Array]:
        """The weights of the policy that acts, by name, copied; neither the target's nor the optimizer's."""
        self._begin("get_weights")
        return self.core.weights()

    @exclusive
    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set them all; the target's stay until they are synchronized.

        Raises:
            RLGraphError: names, shapes or dtypes differ, or a number is not finite. Nothing is set then.
        """
        where = f"{self._begin('set_weights')}: weights"
        own = self.core.weights()
        known(where, mapping(where, weights), own, what="weight")
        if missing := [name for name in own if name not in weights]:
            refuse(where, f"has no {', '.join(missing)}", list(weights))
        for name, array in own.items():
            given = np.asarray(weights[name])
            if given.shape != array.shape or given.dtype != array.dtype:
                problem = f"must be {array.dtype} of shape {array.shape}, got {given.dtype} of shape {given.shape}"
                refuse(f"{where}[{name!r}]", problem, weights[name])
            if not np.isfinite(given).all():
                refuse(f"{where}[{name!r}]", "must be finite", weights[name])
        self.core.set_weights({name: np.array(weights[name]) for name in own})

    def get_policy_weights(self) -> dict[str, Array]:
        """As :meth:`get_weights`."""
        return self.get_weights()

    def set_policy_weights(self, weights: Mapping[str, Array]) -> None:
        """As :meth:`set_weights`."""
        self.set_weights(weights)

    # -- API methods --------------------------------------------------------------------------------------------------

    @exclusive
    def call_api_method(self, op: str, inputs: Any = None, return_ops: Any = None) -> Any:
        """Call what RLgraph's graph called an API method.

        Args:
            op: its name.
            inputs: one value, a list of them in the method's order, or a dictionary of them by input space: ``states``,
                ``time_step``, ``use_exploration``, ... Exploration sees ``time_step``, and nothing is counted.
            return_ops: indices of what to return.

        Raises:
            RLGraphError: there is none of this name; the message lists them.
        """
        where = self._begin("call_api_method")
        methods = self._api_methods()
        method = methods[choice(f"{where}: op", op, methods)]
        takes = inspect.signature(method)
        given, by_space = _inputs(inputs, takes.parameters)
        known(f"{where}: inputs of {op!r}", by_space, takes.parameters, what="input space")
        try:
            takes.bind(*given, **by_space)
        except TypeError as error:
            raise RLGraphError(f"{where}: inputs of {op!r} do not fit: {error}", "inputs", inputs) from error
        found = method(*given, **by_space)
        if return_ops is None:
            return found
        indices = return_ops if isinstance(return_ops, list | tuple | set | frozenset) else [return_ops]
        parts = found if isinstance(found, tuple) else (found,)
        if not all(isinstance(index, int) and 0 <= index < len(parts) for index in indices):
            refuse(f"{where}: return_ops", f"must be indices in 0 .. {len(parts) - 1}, got {return_ops!r}", return_ops)
        chosen = tuple(parts[index] for index in sorted(indices))
        return chosen[0] if len(chosen) == 1 else chosen

    def _api_methods(self) -> dict[str, Callable[..., Any]]:
        """By name; subclasses add theirs."""
        return {
            "get_policy_weights": self.get_policy_weights,
            "set_policy_weights": self.set_policy_weights,
            "preprocess_states": self.preprocess_states,
            "reset_preprocessor": self.preprocessor.reset,
            "get_preprocessed_state_and_action": self._state_and_action,
            "action_from_preprocessed_state": self._action_from_preprocessed,
            "insert_records": self._insert_records,
            "update_from_memory": self.update,
            "update_from_external_batch": self._update_from_batch,
        }

    def _state_and_action(self, states: Any, time_step: Any = None, use_exploration: Any = True) -> Any:
        action, seen = self._at_time(time_step, states, use_exploration, True, "preprocessed_states")
        return seen, action

    def _action_from_preprocessed(self, states: Any, time_step: Any = None, use_exploration: Any = True) -> Any:
        return states, self._at_time(time_step, states, use_exploration, False, None)

    def _at_time(self, time_step: Any, states: Any, use_exploration: Any, preprocess: bool, extras: Any) -> Any:
        """Act as of a timestep; None: the present one. ActorCriticAgent's method had no ``time_step``."""
        if isinstance(time_step, bool | np.bool_):
            time_step, use_exploration = None, time_step
        time_step = self.timesteps if time_step is None else int(time_step)
        return self._act(states, None, bool(use_exploration), preprocess, extras, time_step=time_step)

    def _insert_records(self, states: Any, actions: Any, rewards: Any, next_states: Any, terminals: Any) -> int:
        names = ("states", "actions", "rewards", "terminals", "next_states")
        values = (states, actions, rewards, terminals, next_states)
        return self.import_observations(dict(zip(names, values, strict=True)))

    def _update_from_batch(
        self,
        states: Any,
        actions: Any,
        rewards: Any,
        terminals: Any,
        next_states: Any = None,
        importance_weights: Any = None,
    ) -> Any:
        names = ("states", "actions", "rewards", "terminals", "next_states", "importance_weights")
        values = (states, actions, rewards, terminals, next_states, importance_weights)
        return self.update({name: value for name, value in zip(names, values, strict=True) if value is not None})

    @property
    def exploration(self) -> Any:
        """How actions differ from the model's own; None before :meth:`build`, and without an ``exploration_spec``."""
        return None if self._core is None else self._core.exploration

    @property
    def policy(self) -> Any:
        """The traced model, which acts; None before :meth:`build`, and of an agent without."""
        return None if self._core is None else self._core.model

    # -- what there is not --------------------------------------------------------------------------------------------

    define_api_methods = refused_method("define_api_methods")
    define_graph_api = refused_method("define_graph_api")
    root_component = property(refused_method("root_component"))
    graph_executor = property(refused_method("graph_executor"))


_INPUT_SPACES: Final = {"preprocessed_states": "states", "policy_weights": "weights"}
"""Other names of parameters of API methods."""


def _inputs(inputs: Any, parameters: Container[str]) -> tuple[list[Any], dict[str, Any]]:
    """Inputs by position, and by input space where a dictionary has the name of a parameter."""
    if inputs is None or isinstance(inputs, list | tuple):
        return list(inputs or ()), {}
    if isinstance(inputs, Mapping):
        named = {str(_INPUT_SPACES.get(name, name)): value for name, value in inputs.items()}
        if any(name in parameters for name in named):
            return [], named
    return [inputs], {}
