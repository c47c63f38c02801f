"""The Agent: what :mod:`.protocol` has, and learning without acting, saving, variables and summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ..spaces.errors import TensorforceError, choice
from .protocol import ActObserve

if TYPE_CHECKING:
    from .learner import Learner

_OUTPUTS = {
    "observe": ["updated", "episode", "update"],
    "reset": ["timestep", "episode", "update"],
    "experience": ["timestep", "episode", "update"],
    "update": ["timestep", "episode", "update"],
}


class LearningAgent(ActObserve):
    """What every agent has, but for :meth:`.agents.Agent.create`."""

    def initialize(self) -> None:
        """Build the model. ``Agent.create`` does it.

        Raises:
            TensorforceError: it is built already, or the arguments do not fit each other.
        """
        from .components import build

        if self.is_initialized:
            raise TensorforceError(f"{self._where}.initialize: the agent is initialized already", "initialize")
        parts = build(self)
        self.form = parts.form
        """The normal form; None for agents without a model."""
        self._put_together(parts.core, parts.learning, parts.preprocessing, parts.companions)

    def __str__(self) -> str:
        return type(self).__name__

    def __enter__(self) -> LearningAgent:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

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
        return {name: {"type": "float", "shape": array.shape} for name, array in self.copied_internals().items()}

    @exclusive
    def get_query_tensors(self, function: str) -> list[str]:
        """What ``query`` can ask for in ``act``, ``observe``, ``experience`` or ``update``, sorted."""
        self._check("get_query_tensors")
        return self._queries.names(function)

    def get_output_tensors(self, function: str) -> list[str]:
        """What a function returned in Tensorforce, by name."""
        self._check("get_output_tensors")
        choice("Agent.get_output_tensors: function", function, ["act", "independent_act", *_OUTPUTS])
        if function == "act":
            return [*self.actions_values.flat, "timestep"]
        if function == "independent_act":
            return [*self.actions_values.flat, *self._initial]
        return list(_OUTPUTS[function])

    # -- learning without acting --------------------------------------------------------------------------------------

    @exclusive
    def experience(
        self,
        states: Any,
        actions: Any,
        terminal: Any,
        reward: Any,
        internals: Any = None,
        query: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Put timesteps into the memory that somebody else took. Counters stay, and no update runs.

        Args:
            states: arrays [T, ...], or the values of one timestep; masks among them.
            actions: likewise.
            terminal: bool or 0, 1, 2, [T] or one.
            reward: [T] or one.
            internals: with which the actions were chosen, [T, ...] by name; of an agent that has any.
            query: name of a value to return, or a list of names.
            **kwargs: values of parameters, for the query.

        Returns:
            None, or what ``query`` asks for. The last episode is stored once it has an end, perhaps by a later call.

        Raises:
            TensorforceError: an argument is wrong, or an episode is running.
        """
        from .external_experience import feed

        learning = self._needs_learning("experience")
        self._refuse_running("experience")
        asked = self._queries.checked("experience", query)
        overrides = self._queries.overrides("Agent.experience", kwargs)
        feed(self, learning, states, actions, terminal, reward, internals)
        return None if asked is None else self._queries.observe(asked, self._counts(), overrides)

    @exclusive
    def update(self, query: Any = None, **kwargs: Any) -> Any:
        """Exactly one update, whatever the schedule; it counts.

        Args:
            query: name of a value to return, or a list of names.
            **kwargs: values of parameters of this update, such as ``learning_rate``.

        Returns:
            None, or what ``query`` asks for.

        Raises:
            TensorforceError: too little is stored.
        """
        learning = self._needs_learning("update")
        asked = self._queries.checked("update", query)
        overrides = self._queries.overrides("Agent.update", kwargs)
        drawn, memory = learning.drawn(), learning.memory
        if not learning.prepare(self._counts(), overrides):
            learning.draw_again(drawn)
            unit = "episodes" if learning.by_episodes else "timesteps"
            problem = f"needs {memory.batch_size} {unit}, and {memory.available()} are stored that could be used"
            raise TensorforceError(f"Agent.update {problem}", "update", memory.available())
        self._learn(learning)
        return None if asked is None else self._queries.observe(asked, self._counts(), overrides)

    @exclusive
    def pretrain(self, directory: str, num_iterations: int, num_traces: int | None = 1, num_updates: int = 1) -> None:
        """Learn from recorded traces.

        Args:
            directory: with files ``trace-*.npz``.
            num_iterations: how often traces are drawn.
            num_traces: how many at a time; None for all.
            num_updates: after each draw.

        Raises:
            TensorforceError: there are none, they do not fit, or the agent has internal states, which traces lack.
        """
        from .external_experience import pretrain

        self._needs_learning("pretrain")
        self._refuse_running("pretrain")
        if self.fed.timesteps:
            problem = "the episode that experience began has not ended: finish it, or call reset()"
            raise TensorforceError(f"Agent.pretrain: {problem}", "terminal")
        for trace in pretrain(self, directory, num_iterations, num_traces, num_updates):
            if trace is None:
                self.update()
            else:
                self.experience(**trace)

    def _refuse_running(self, method: str) -> None:
        for index, lane in enumerate(self._lanes):
            if lane.running:
                problem = f"an episode of parallel index {index} is running: finish it, or call reset()"
                raise TensorforceError(f"Agent.{method}: {problem}", "parallel", index)

    def _needs_learning(self, method: str) -> Learner:
        self._check(method)
        if self.learning is None:
            raise TensorforceError(f"Agent.{method}: a {self.kind} agent does not learn", method)
        return self.learning

    # -- saving and loading -------------------------------------------------------------------------------------------

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
        from .writer import save

        self._check("save")
        return save(self, directory, filename, format, append)

    @exclusive
    def restore(self, directory: str | None = None, filename: str | None = None, format: str | None = None) -> None:
        """Become the agent of a file, which must have the same variables; unfinished episodes are forgotten.

        Args:
            directory: None for the saver's, else ``.``.
            filename: as for ``Agent.load``; None for the saver's, else the agent's ``name``.
            format: ``tensorflow``, ``numpy`` or ``hdf5``; None for the one that there is.

        Raises:
            TensorforceError: there is none, or its variables differ.
        """
        from .agent_state import take_over
        from .saved_files import find, read_content
        from .writer import place_of

        where = "Agent.restore"
        if not self.is_initialized:
            self.initialize()
        self.reset()
        saved = find(where, *place_of(self, directory, filename), format)
        take_over(where, self, saved, read_content(where, saved))

    # -- variables ----------------------------------------------------------------------------------------------------

    @exclusive
    def get_variables(self) -> list[str]:
        """Names of all variables."""
        from .variables import names

        self._check("get_variables")
        return names(self)

    @exclusive
    def get_variable(self, variable: str) -> Array:
        """The value of a variable, by its name, also with ``agent/`` in front."""
        from .variables import get

        self._check("get_variable")
        return get(self, variable)

    @exclusive
    def assign_variable(self, variable: str, value: Any) -> None:
        """Set a variable; it acts at the next act.

        Raises:
            TensorforceError: the name is unknown, or the value has another shape or dtype or is not finite.
        """
        from .variables import assign

        self._check("assign_variable")
        assign(self, variable, value)

    # -- summaries ----------------------------------------------------------------------------------------------------

    @exclusive
    def summarize(self, summary: str, value: Any, step: int | None = None) -> None:
        """Write a value under one of the summarizer's ``custom`` labels; ``step`` None is the number of timesteps."""
        from .summaries import summarize

        self._check("summarize")
        summarize(self, summary, value, step)

    def get_available_summaries(self) -> list[str]:
        """Labels that this agent can record, sorted."""
        from .summaries import available

        self._check("get_available_summaries")
        return available(self)
