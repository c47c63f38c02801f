"""The Agent: creating, storing and learning, weights, files, and API methods by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np

from ....core.protocols import Array
from ....hooks.events import UpdateFacts
from ....hooks.nan_guard import check_finite
from ...common.exclusion import exclusive
from ..specs.normal import updating
from ..utils.rlgraph_errors import as_array, mapping, refuse, refuse_unknown
from . import api_methods, files
from .acting import FIRST_ID, checked_id
from .api_methods import refused_method
from .base import BaseAgent
from .creation import create
from .records import buffer_property
from .rows import rows_of, stack_rows

Made = TypeVar("Made", bound="Agent")


class Agent(BaseAgent):
    """An agent for a loop that the caller owns: ``get_action``, ``observe``, ``update``.

    It is abstract. DQNAgent and the others take its arguments by keyword, besides their own:

    Args:
        state_space: a Space, its specification, or one of Gymnasium's.
        action_space: a Space, its specification, or one of Gymnasium's.
        discount: discount factor of rewards, 0 .. 1.
        preprocessing_spec: a list of preprocessing steps.
        network_spec: a list of layers.
        internal_states_space: recurrent state, checked against the network; may be omitted.
        action_adapter_spec: layers between the network and the values or probabilities of actions.
        exploration_spec: ``epsilon_spec`` or ``noise_spec``.
        execution_spec: ``seed``.
        optimizer_spec: ``type``, ``learning_rate`` and more.
        observe_spec: ``buffer_enabled``, ``buffer_size`` and ``n_step``.
        update_spec: when updates run and what they draw.
        summary_spec: ``directory`` for TensorBoard's ``loss``, ``epsilon`` and ``episode_reward``, written every
            ``save_steps`` timesteps, or ``save_secs`` = 120 seconds where that is None; ``summary_regexp`` selects.
        saver_spec: ``directory`` for checkpoints, written every ``save_steps`` timesteps, or ``save_secs`` = 600
            seconds where that is None, and at :meth:`terminate`; ``max_checkpoints`` = 5 are kept.
        auto_build: False: call :meth:`build` yourself.
        name: name of the agent.

    Raises:
        RLGraphError: an argument is unknown, missing or invalid, or arguments do not fit each other.
    """

    @classmethod
    def from_spec(cls: type[Made], spec: Any = None, **kwargs: Any) -> Made:
        """An agent from a specification.

        Args:
            spec: a dictionary with ``type``; the name of a JSON or YAML file with one; a key such as ``"dqn"``; a
                class; or an agent, which is returned. ``type`` may be omitted if this is called on a subclass.
            **kwargs: arguments, which override those of the specification; the specification is not changed.

        Raises:
            RLGraphError: the specification is not of an agent, or not of this class.
        """
        made: Made = create(cls, Agent, spec, kwargs)
        return made

    @classmethod
    def from_file(cls: type[Made], path: str, **kwargs: Any) -> Made:
        """Apply ``from_spec`` to a file."""
        return cls.from_spec(path, **kwargs)

    from_mixed = from_spec

    @exclusive
    def observe(
        self,
        preprocessed_states: Any,
        actions: Any,
        internals: Any,
        rewards: Any,
        next_states: Any,
        terminals: Any = False,
        env_id: str | None = None,
    ) -> None:
        """Store a record, or a batch of consecutive records, whose arrays all have a leading axis.

        Records are buffered per ``env_id``. At ``buffer_size`` records, or after a terminal one, they go to the memory.

        Args:
            preprocessed_states: the preprocessed states.
            actions: the actions taken.
            internals: recurrent states of a recurrent agent; else [] or None.
            rewards: the rewards.
            next_states: the next preprocessed states; for a terminal record the last state of the episode.
            terminals: has the episode ended, other than by a time limit?
            env_id: name of the environment; None is ``"env_0"``.

        Raises:
            RLGraphError: an argument is invalid. Nothing is stored then.
        """
        name = checked_id(self.begin("observe"), FIRST_ID if env_id is None else env_id)
        del internals  # recurrent states are not learnt from
        rows = self._records.rows(preprocessed_states, actions, rewards, terminals, next_states)
        stops = self.observe_spec["buffer_enabled"]
        most = self.observe_spec["buffer_size"] if stops else len(rows)
        for row in rows:
            buffer = self._buffers.setdefault(name, [])
            buffer.append(self.core.observed(name, row))
            if len(buffer) >= most or (stops and row["terminal"]):
                self._flush(name)
        for one in self.companions:
            for row in rows:
                one.observed(name, float(row["reward"]), bool(row["terminal"]))

    def _flush(self, name: str) -> None:
        if rows := self._buffers.pop(name, None):
            self.core.store(name, rows)

    def _env_ids(self, where: str, env_id: str | None) -> list[str]:
        """The environment of this name, or all that have records."""
        return list(self._buffers) if env_id is None else [checked_id(where, env_id)]

    @exclusive
    def flush_env_buffers(self, env_id: str | None = None) -> None:
        """Move an environment's buffer to the memory, as after a time limit: the last record is not terminal.

        Args:
            env_id: name of the environment; None: all.
        """
        where = self.begin("flush_env_buffers")
        for name in self._env_ids(where, env_id):
            self._flush(name)
        self.core.end(env_id)
        for one in self.companions:
            one.cut(env_id)

    @exclusive
    def reset_env_buffers(self, env_id: str | None = None) -> None:
        """Drop the contents of an environment's buffer; an unknown name is ignored.

        For actor-critic agents, the stored part of its episode ends there, without a terminal.

        Args:
            env_id: name of the environment; None: all.
        """
        where = self.begin("reset_env_buffers")
        for name in self._env_ids(where, env_id):
            self._buffers.pop(name, None)
            self.core.drop(name)
        self.core.end(env_id)

    @exclusive
    def import_observations(self, observations: Any) -> int:
        """Store preprocessed records from elsewhere, such as demonstrations, as if they came from a buffer.

        Args:
            observations: arrays [B, ...] under ``states``, ``actions``, ``rewards``, ``terminals`` and
                ``next_states``; or a list of such dictionaries.

        Returns:
            The number of records.

        Raises:
            RLGraphError: an array is missing or has the wrong shape. Nothing is stored then.
        """
        where = self.begin("import_observations")
        parts = [observations] if isinstance(observations, Mapping) else observations
        if not isinstance(parts, list | tuple):
            refuse(f"{where}: observations", "must be a dictionary of arrays, or a list of dictionaries", observations)
        read = [self._records.columns("import_observations", "observations", part) for part in parts]
        for columns in read:
            self.core.store(None, [self.core.observed(None, row) for row in rows_of(columns)])
        self._tell_of_update(None)
        return sum(len(columns["reward"]) for columns in read)

    states_buffer = buffer_property(
        "observation", "Preprocessed states that are not in the memory yet, by environment.", "preprocessed_state_space"
    )
    actions_buffer = buffer_property("action", "Their actions.", "action_space")
    internals_buffer = buffer_property("internals", "Nothing: recurrent states are not learnt from.")
    rewards_buffer = buffer_property("reward", "Their rewards.")
    next_states_buffer = buffer_property("next_observation", "What followed.", "preprocessed_state_space")
    terminals_buffer = buffer_property("terminal", "Whether the episode ended.")

    @exclusive
    def update(self, batch: Any = None) -> Any:
        """One update.

        Args:
            batch: None: a batch from the memory. Else arrays [B, ...] under ``states``, ``actions``, ``rewards``,
                ``terminals``, ``next_states`` and optionally ``importance_weights``; memory and priorities are not
                changed.

        Returns:
            The mean loss, a :class:`Loss`: a float that also unpacks like a tuple, for DQNAgent into the loss and
            ``loss_per_item``; None for RandomAgent.

        Raises:
            RLGraphError: the memory holds less than a batch, or the batch is invalid. Nothing is changed then.
            NonFiniteError: the loss is NaN or infinite.
        """
        self.begin("update")
        if batch is None:
            self.core.require_batch(self._buffered_count)
            for name in list(self._buffers) if self.core.takes_buffered else ():
                self._flush(name)
            loss = self.core.update(self.updates)
        else:
            loss = self.core.learn(self._records.batch("update", batch), self.updates)
        self.updates += 1
        if loss is not None:
            check_finite(UpdateFacts(loss, {}), lambda: f"at update {self.updates}, timestep {self.timesteps}")
        self._tell_of_update(loss)
        return loss

    def _tell_of_update(self, loss: Any) -> None:
        for one in self.companions:
            one.updated(loss)

    def updating(self, where: str, given: Any) -> AbstractContextManager[Mapping[str, Any]]:
        """Context that overrides entries of ``update_spec``.

        Args:
            where: their place, for messages.
            given: the entries; None: none.

        Raises:
            RLGraphError: an entry is unknown or invalid.
        """
        return updating(where, self.form, given)

    @exclusive
    def get_weights(self) -> dict[str, Array]:
        """Copies of the acting policy's weights by name, without target networks and optimizer."""
        self.begin("get_weights")
        return self.core.weights()

    @exclusive
    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set all weights of the policy; target networks keep theirs until the next synchronization.

        Raises:
            RLGraphError: names, shapes or dtypes differ, or a number is not finite. Nothing is set then.
        """
        where = f"{self.begin('set_weights')}: weights"
        own = self.core.weights()
        refuse_unknown(where, mapping(where, weights), own, what="weight")
        if missing := [name for name in own if name not in weights]:
            refuse(where, f"has no {', '.join(missing)}", list(weights))
        for name, array in own.items():
            given = as_array(f"{where}[{name!r}]", weights[name])
            if given.shape != array.shape or given.dtype != array.dtype:
                problem = f"must be {array.dtype} of shape {array.shape}, got {given.dtype} of shape {given.shape}"
                refuse(f"{where}[{name!r}]", problem, weights[name])
            if not np.isfinite(given).all():
                refuse(f"{where}[{name!r}]", "must be finite", weights[name])
        self.core.set_weights({name: np.array(weights[name]) for name in own})
        self._tell_of_update(None)

    get_policy_weights, set_policy_weights = get_weights, set_weights

    @exclusive
    def store_model(self, path: str | os.PathLike[str] | None = None, add_timestep: bool = True) -> str:
        """Write the agent's complete state: weights, memory, buffers, counters, random generators.

        Args:
            path: a folder for checkpoints; None: ``saver_spec["directory"]``.
            add_timestep: add the timestep to the checkpoint's name.

        Returns:
            The checkpoint's folder: ``<path>/<checkpoint_basename>-<timesteps>``. The newest ``max_checkpoints`` of
            these are kept.

        Raises:
            RLGraphError: no path is known, or something other than a checkpoint is there.
            CheckpointError: it cannot be written; what was there is kept.
            NonFiniteError: a weight is NaN or infinite; nothing is written.
        """
        return files.store(self.begin("store_model"), self, path, add_timestep)

    @exclusive
    def load_model(self, path: str | os.PathLike[str]) -> None:
        """Restore what :meth:`store_model` wrote: the agent then continues bit for bit as the stored one.

        Args:
            path: a checkpoint's folder, or a folder of checkpoints, of which the highest number is loaded.

        Raises:
            RLGraphError: there is no checkpoint, it is damaged, or it is of another agent. Nothing is changed then.
        """
        self.load_state_dict(files.load(self.begin("load_model"), self, path))

    @exclusive
    def export_graph(self, filename: str | os.PathLike[str]) -> str:
        """Write the policy as a folder that acts without TensorFlow, with the preprocessing inside.

        It is read by ``axonrl.runtimes.Policy.load``, whose ``act`` takes states and returns the best actions.

        Args:
            filename: the folder; a suffix ``.meta`` is dropped.

        Returns:
            The folder.

        Raises:
            RLGraphError: the model cannot be converted, preprocessing is stateful, or something else is there.
        """
        return files.export(self.begin("export_graph"), self, filename)

    def state_dict(self) -> dict[str, Any]:
        """The agent's complete state."""
        return {
            "timesteps": self.timesteps,
            "updates": self.updates,
            "core": self.core.state_dict(),
            "perception": self.perception.state_dict(),
            "buffers": {name: stack_rows(rows) for name, rows in self._buffers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.core.load_state_dict(state["core"])
        self.perception.load_state_dict(state["perception"])
        self._buffers = {name: rows_of(columns) for name, columns in state["buffers"].items()}
        self.timesteps, self.updates = state["timesteps"], state["updates"]

    @exclusive
    def call_api_method(self, op: str, inputs: Any = None, return_ops: Any = None) -> Any:
        """Call an API method of RLgraph's graph.

        Args:
            op: its name.
            inputs: one value, a list of values in the method's order, or a dictionary of them by input space:
                ``states``, ``time_step``, ``use_exploration``, ... Exploration uses ``time_step``; no timesteps are
                counted.
            return_ops: indices of the results to return.

        Raises:
            RLGraphError: no method has this name; the message lists all names.
        """
        return api_methods.call(self.begin("call_api_method"), self._api_methods(), op, inputs, return_ops)

    def _api_methods(self) -> dict[str, Callable[..., Any]]:
        """API methods by name; subclasses add theirs."""
        return api_methods.of_all(self)

    define_api_methods = refused_method("define_api_methods")
    define_graph_api = refused_method("define_graph_api")
    root_component = property(refused_method("root_component"))
    graph_executor = property(refused_method("graph_executor"))
