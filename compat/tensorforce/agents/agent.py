"""The Agent: act and observe in the caller's loop; saving, variables and summaries."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ..spaces import readers
from ..spaces.errors import TensorforceError
from ..spaces.specs import Values, check_together, read_values
from ..specs.arguments import bind, check_arguments
from . import interaction, saver, state, summary_labels
from .companions import AgentCore
from .components import build
from .creation import create, load
from .files import find
from .parallel import Parallel
from .queries import Queries
from .summaries import Summarizer


class Agent(AgentCore):
    """An agent of Tensorforce 0.5, on axonrl.

    :meth:`create` makes one. :meth:`act` and :meth:`observe` alternate in each parallel index, which is a separate
    episode; updates run inside ``observe``. Calls wait for each other, so that threads may share an agent.

    Attributes:
        timesteps, episodes, updates: numbers of acts, finished episodes and updates so far.
        form: the normal form; None for agents without a model.
        acting, learning: the parts that choose actions and learn; None for agents that do not.
        preprocessing: preprocessing of states and rewards.
        companions: the recorder, summarizer and saver, if there are any.
        fed: the unfinished episode of ``experience``.
    """

    @staticmethod
    def create(agent: Any = "tensorforce", environment: Any = None, **kwargs: Any) -> Any:
        """An agent that is ready to act.

        Args:
            agent: a key (``"ppo"``), a dictionary or a JSON file with the key under ``agent`` or ``type``, a class, its
                dotted path, or an Agent.
            environment: provides defaults of ``states``, ``actions`` and ``max_episode_timesteps``.
            **kwargs: the agent's arguments; they override those of a dictionary or a file.

        Raises:
            TensorforceError: an argument is unknown, missing or invalid.
        """
        return create(agent, environment, kwargs, Agent)

    @staticmethod
    def load(
        directory: str | None = None,
        filename: str | None = None,
        format: str | None = None,
        environment: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A saved agent.

        Args:
            directory: where it was saved; None for ``.``.
            filename: with or without the appended number and the extension. Without a number, the last file written in
                the format ``tensorflow``, or the highest number in other formats. None for ``agent``.
            format: ``tensorflow``, ``numpy``, ``hdf5``, or ``pb-actonly`` for an act-only agent without TensorFlow.
            environment: as for :meth:`create`.
            **kwargs: arguments that override the saved ones.

        Raises:
            TensorforceError: no such agent was saved, or it was saved in several formats and none is given.
        """
        return load(directory, filename, format, environment, kwargs, Agent)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        where = type(self).__name__
        self.arguments = bind(self.kind, args, kwargs)
        given = check_arguments(self.kind, self.arguments)
        self.states_values: Values = read_values(where, given["states"], "states")
        self.actions_values: Values = read_values(where, given["actions"], "actions")
        check_together(where, self.states_values, self.actions_values)
        self.parallel_interactions: int = given.get("parallel_interactions", 1)
        self.max_episode_timesteps: int | None = given.get("max_episode_timesteps")
        self.name: str = given.get("name") or "agent"
        self.lock = threading.RLock()

    def __str__(self) -> str:
        return type(self).__name__

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- life ---------------------------------------------------------------------------------------------------------

    def initialize(self) -> None:
        """Build the model. :meth:`create` calls it.

        Raises:
            TensorforceError: it is built already, or arguments do not fit each other.
        """
        if self.is_initialized:
            raise TensorforceError(f"{self}.initialize: the agent is initialized already", "initialize")
        self.acting, self.learning, self.preprocessing, self.companions, self.form = build(self)
        self.independent_preprocessing = self.preprocessing.independent()
        self.sees_states = self.preprocessing.idle
        self.queries = Queries(self.acting, self.learning)
        self.read_states = readers.StateReader(self.states_values, self.actions_values)
        self.actions_out = interaction.actions_out(self.actions_values)
        self.internals = {} if self.learning is None else self.learning.initial_internals
        self.lanes = [Parallel(self.internals) for _ in range(self.parallel_interactions)]
        self.fed = Parallel(self.internals)
        self.is_initialized = True
        for one in self.companions:
            one.begin(self)

    @exclusive
    def close(self) -> None:
        """Save, if there is a ``saver``, and close the agent for good. A second call does nothing."""
        with contextlib.ExitStack() as stack:  # a recorder that fails must not cost the saver's last file
            for one in reversed(self.companions if self.is_initialized and not self._closed else []):
                stack.callback(one.close, self)
        self._closed = True

    @exclusive
    def reset(self) -> None:
        """Drop the unfinished episodes of all parallel indices; counters and learned state are kept."""
        self.check_open("reset")
        if self.learning is not None:
            self.learning.memory.drop_open()
        for index, lane in enumerate(self.lanes):
            lane.reset()
            for one in self.companions:
                one.drop(index)
        self.fed.reset()
        self.preprocessing.reset()
        self.independent_preprocessing.reset()

    @exclusive
    def initial_internals(self, parallel: Any = None) -> dict[str, Array]:
        """Begin an episode of independent acts, of one index, several or all (None): reset its preprocessing history.

        Returns:
            Internal states of an index by name; empty without internal layers.

        Raises:
            TensorforceError: ``parallel`` is no index.
        """
        self.check_open("initial_internals")
        return interaction.initial_internals(self, parallel)

    # -- act and observe ----------------------------------------------------------------------------------------------

    def act(
        self,
        states: Any,
        internals: Any = None,
        parallel: Any = 0,
        independent: bool = False,
        deterministic: bool = False,
        evaluation: bool = False,
        query: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Actions for states.

        Args:
            states: the value of a single state, or a dictionary; masks of int actions under ``<action>_mask``. A list
                of these for several parallel indices.
            internals: for independent acts: internals as returned by the last one.
            parallel: one or several indices, 0 .. ``parallel_interactions - 1``. Independent acts take any index; each
                has its own preprocessing history, which :meth:`initial_internals` and :meth:`reset` clear.
            independent: no observe follows, and nothing is stored or counted.
            deterministic: for independent acts: no sampling and no exploration.
            evaluation: independent and deterministic.
            query: name or list of names of further values to return.
            **kwargs: ``exploration``, ``temperature``, ``variable-noise``: for this call only.

        Returns:
            Actions, nested as declared; with ``internals`` also the next internals, with ``query`` also its values.

        Raises:
            TensorforceError: an argument is invalid, or an earlier act of this index has not been observed.
            NonFiniteError: a prediction is NaN or infinite.
        """
        with self.lock:
            self.check_open("act")
            greedy = deterministic or evaluation
            return interaction.act(self, states, internals, parallel, independent or evaluation, greedy, query, kwargs)

    @exclusive
    def observe(
        self,
        reward: Any,
        terminal: Any = False,
        parallel: Any = 0,
        query: Any = None,
        *,
        next_states: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Observe the act's outcome; run an update if one is due.

        Args:
            reward: a number; for several parallel indices a list of numbers, as is ``terminal``.
            terminal: False or 0: the episode continues; True or 1: it ended; 2: it was aborted, by a time limit.
            parallel: as for :meth:`act`.
            query: name or list of names of further values to return; only for one parallel index.
            next_states: the states after an abort, to bootstrap from.
            **kwargs: values of parameters, such as ``discount``, for an update that this call runs.

        Returns:
            Whether an update ran; for several parallel indices the number of updates; with ``query`` also its values.

        Raises:
            TensorforceError: an argument is invalid, or this index has no act to observe.
            NonFiniteError: the loss or a metric of an update is NaN or infinite.
        """
        self.check_open("observe")
        return interaction.observe(self, reward, terminal, parallel, query, next_states, kwargs)

    # -- specifications -----------------------------------------------------------------------------------------------

    @property
    def spec(self) -> dict[str, Any]:
        """The arguments it was created with that are not None."""
        given = {key: value for key, value in self.arguments.items() if value is not None}
        return {"agent": self.kind, **given, "states": self.states_spec, "actions": self.actions_spec}

    @property
    def states_spec(self) -> Any:
        """Specification of the states."""
        return self.states_values.to_json()

    @property
    def actions_spec(self) -> Any:
        """Specification of the actions."""
        return self.actions_values.to_json()

    @property
    def internals_spec(self) -> dict[str, Any]:
        """Specification of the internal states, by name."""
        return {name: {"type": "float", "shape": array.shape} for name, array in self.internals.items()}

    @exclusive
    def get_query_tensors(self, function: str) -> list[str]:
        """Names that ``query`` accepts in ``act``, ``observe``, ``experience`` or ``update``, sorted."""
        self.check_open("get_query_tensors")
        return self.queries.names(function)

    def get_output_tensors(self, function: str) -> list[str]:
        """A function's outputs in Tensorforce, by name."""
        self.check_open("get_output_tensors")
        return self.queries.outputs(function, self.actions_values.flat, self.internals)

    # -- saving, variables, summaries ---------------------------------------------------------------------------------

    @exclusive
    def save(
        self,
        directory: str | None = None,
        filename: str | None = None,
        format: str = "tensorflow",
        append: str | None = None,
    ) -> str:
        """Save the agent; an existing file is replaced.

        Args:
            directory: None: the saver's directory, or ``.``; created if missing.
            filename: None: the saver's, or the agent's ``name``.
            format: ``tensorflow`` (everything), ``numpy`` or ``hdf5`` (variables, optimizer and counters).
            append: ``timesteps``, ``episodes`` or ``updates``: the counter to append to the name.

        Returns:
            The path, for :meth:`load`.

        Raises:
            NonFiniteError: a weight is NaN or infinite; nothing is written.
        """
        self.check_open("save")
        return saver.save(self, directory, filename, format, append)

    @exclusive
    def restore(self, directory: str | None = None, filename: str | None = None, format: str | None = None) -> None:
        """Restore the agent from a file, which must have the same variables; unfinished episodes are dropped.

        Args:
            directory: None: the saver's directory, or ``.``.
            filename: as for :meth:`load`; None: the saver's, or the agent's ``name``.
            format: ``tensorflow``, ``numpy`` or ``hdf5``; None: the existing one.

        Raises:
            TensorforceError: there is no such file, or its variables differ.
        """
        if not self.is_initialized:
            self.initialize()
        self.check_open("restore")
        where = "Agent.restore"
        state.take_over(where, self, find(where, *saver.place_of(self, directory, filename), format))
        self.reset()  # last: a refused file must not cost the unfinished episodes

    @exclusive
    def get_variables(self) -> list[str]:
        """Names of all variables."""
        self.check_open("get_variables")
        return sorted(state.variables(self))

    @exclusive
    def get_variable(self, variable: str) -> Array:
        """The value of a variable by name, with or without the prefix ``agent/``."""
        self.check_open("get_variable")
        return state.known_variable("Agent.get_variable", self, variable)[1]

    @exclusive
    def assign_variable(self, variable: str, value: Any) -> None:
        """Set a variable, with effect from the next act.

        Raises:
            TensorforceError: the name is unknown, or the value has another shape or dtype, or is not finite.
        """
        self.check_open("assign_variable")
        state.assign("Agent.assign_variable", self, variable, value)

    @exclusive
    def summarize(self, summary: str, value: Any, step: int | None = None) -> None:
        """Write a value under one of the summarizer's ``custom`` labels; ``step`` None is the number of timesteps."""
        self.check_open("summarize")
        for one in self.companions:
            if isinstance(one, Summarizer):
                one.summarize(self, summary, value, step)
                return
        raise TensorforceError("Agent.summarize: the agent has no summarizer: create it with one", "summarizer")

    def get_available_summaries(self) -> list[str]:
        """Labels that this agent can record, sorted."""
        self.check_open("get_available_summaries")
        return summary_labels.available(self)
