"""The Agent: act and observe, in a loop that its caller owns; saving, variables and summaries."""

from __future__ import annotations

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

    :meth:`create` makes one. :meth:`act` and :meth:`observe` alternate in every parallel index, each of which is an
    episode of its own; updates run inside of ``observe``. Calls wait for each other, so that threads may share it.

    Attributes:
        timesteps, episodes, updates: acts, finished episodes and runs of the optimizer so far.
        form: the normal form; None for agents without a model.
        acting, learning: what chooses actions, and what learns; None for agents that do not.
        preprocessing: of states and rewards.
        companions: recorder, summarizer and saver, as far as they are asked for.
        fed: the unfinished episode of ``experience``.
    """

    @staticmethod
    def create(agent: Any = "tensorforce", environment: Any = None, **kwargs: Any) -> Any:
        """An agent that is ready to act.

        Args:
            agent: a key (``"ppo"``), a dictionary or a JSON file with the key under ``agent`` or ``type``, a class, its
                dotted path, or an Agent.
            environment: gives ``states``, ``actions`` and ``max_episode_timesteps`` where they are not given.
            **kwargs: the agent's arguments; they win over those of a dictionary or a file.

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
            filename: with or without the number that was appended and the extension; without a number the last one
                written in the format ``tensorflow``, or the highest one of the others. None for ``agent``.
            format: ``tensorflow``, ``numpy``, ``hdf5``, or ``pb-actonly`` for what only acts, without TensorFlow.
            environment: as for :meth:`create`.
            **kwargs: arguments that win over the saved ones.

        Raises:
            TensorforceError: there is none, or there are several formats and none is given.
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
        """Build the model. :meth:`create` does it.

        Raises:
            TensorforceError: it is built already, or the arguments do not fit each other.
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
        """Save, if there is a ``saver``; the agent cannot be used afterwards. A second call does nothing."""
        if self.is_initialized and not self._closed:
            for one in self.companions:
                one.close(self)
        self._closed = True

    @exclusive
    def reset(self) -> None:
        """Forget the unfinished episodes of all parallel indices; counters and what was learnt stay."""
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
    def initial_internals(self, parallel: int | None = None) -> dict[str, Array]:
        """Begin an episode of independent acts, of one index or of all (None): forget what preprocessing has of it.

        Returns:
            Internal states by name; empty without internal layers.
        """
        self.check_open("initial_internals")
        self.independent_preprocessing.reset(parallel)
        return {name: array.copy() for name, array in self.internals.items()}

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
            states: the value of a single state, or a dictionary; masks of int actions under ``<action>_mask``. With
                several parallel indices a list of them.
            internals: of independent acts, as the last one returned them.
            parallel: index, or several, 0 .. ``parallel_interactions - 1``; of independent acts any, as each index has
                a preprocessing history of independent acts, from :meth:`initial_internals` or :meth:`reset` on.
            independent: no observe follows, and nothing is stored or counted.
            deterministic: of independent acts: neither sampling nor exploration.
            evaluation: independent and deterministic.
            query: name of a value to return too, or a list of names.
            **kwargs: ``exploration``, ``temperature``, ``variable-noise``: for this call only.

        Returns:
            Actions, nested as they are declared; with ``internals`` the next ones too, with ``query`` what it asks for.

        Raises:
            TensorforceError: an argument is wrong, or an act of this index waits for its observe.
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
            reward: a number; with several parallel indices a list of them, as ``terminal``.
            terminal: False or 0: the episode goes on; True or 1: it ended; 2: it was aborted, by a time limit.
            parallel: as for :meth:`act`.
            query: name of a value to return too, or a list of names; of one parallel index.
            next_states: the states after an abort, so that nothing is lost there.
            **kwargs: values of parameters for an update that this call runs, such as ``discount``.

        Returns:
            Was there an update? With several parallel indices how many; with ``query`` also what it asks for.

        Raises:
            TensorforceError: an argument is wrong, or no act of this index waits for an observe.
        """
        self.check_open("observe")
        return interaction.observe(self, reward, terminal, parallel, query, next_states, kwargs)

    # -- specifications -----------------------------------------------------------------------------------------------

    @property
    def spec(self) -> dict[str, Any]:
        """The arguments that it was created with, those that are not None."""
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
        """Names that ``query`` takes in ``act``, ``observe``, ``experience`` or ``update``, sorted."""
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
        """Save the agent; a file that exists is replaced.

        Args:
            directory: None for the saver's, else ``.``; created where it does not exist.
            filename: None for the saver's, else the agent's ``name``.
            format: ``tensorflow`` (all there is), ``numpy`` or ``hdf5`` (variables, optimizer and counters).
            append: ``timesteps``, ``episodes`` or ``updates``: that counter is added to the name.

        Returns:
            The path, as :meth:`load` takes it.
        """
        self.check_open("save")
        return saver.save(self, directory, filename, format, append)

    @exclusive
    def restore(self, directory: str | None = None, filename: str | None = None, format: str | None = None) -> None:
        """Become the agent of a file, which must have the same variables; unfinished episodes are forgotten.

        Args:
            directory: None for the saver's, else ``.``.
            filename: as for :meth:`load`; None for the saver's, else the agent's ``name``.
            format: ``tensorflow``, ``numpy`` or ``hdf5``; None for the one that there is.

        Raises:
            TensorforceError: there is none, or its variables differ.
        """
        if not self.is_initialized:
            self.initialize()
        self.reset()
        where = "Agent.restore"
        state.take_over(where, self, find(where, *saver.place_of(self, directory, filename), format))

    @exclusive
    def get_variables(self) -> list[str]:
        """Names of all variables."""
        self.check_open("get_variables")
        return sorted(state.variables(self))

    @exclusive
    def get_variable(self, variable: str) -> Array:
        """The value of a variable, by its name, also with ``agent/`` in front."""
        self.check_open("get_variable")
        return state.known_variable("Agent.get_variable", self, variable)[1]

    @exclusive
    def assign_variable(self, variable: str, value: Any) -> None:
        """Set a variable; it acts at the next act.

        Raises:
            TensorforceError: the name is unknown, or the value has another shape or dtype or is not finite.
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
