"""The learner: a traced model with its memory, its parameters, and the schedule of updates."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ....core.initializers import model_seed
from ....core.protocols import Array, RunConfig
from ....hooks.events import UpdateFacts
from ....policies.behaviour import zero_state
from ....run_dir.generators import generators
from ....run_dir.programs import shared_content
from ..processing.parameters import Counts, Parameter, make_parameter
from ..spaces.specs import MASK, Values
from ..specs.modules import internal_lengths
from ..specs.normal_form import at, bounds_of_fed, first_update, least_capacity
from .parallel import Parallel, Timestep
from .trajectories import ABORTED, CUT, TERMINATED, Trajectories

if TYPE_CHECKING:
    from ....estimators.stepper import Stepper
    from ....runtimes.tracing.program import Program

logger = logging.getLogger("axonrl")
HORIZON: Final = "reward_estimation/horizon"
DISCOUNT: Final = "reward_estimation/discount"
START: Final = "update/start"
FREQUENCY: Final = "update/frequency"
_FEWER: Final = 4
"""Factor between batch sizes: a compromise between the number of traces and padding."""
_LEAST_ROWS: Final = 100
"""Rows of the smallest size: fewer hardly make an update faster."""
_INDEX_OF_PARAMETERS: Final = 5
"""Index of the generator of random parameters among those derived from the seed."""
_BOUNDS: Final = {
    HORIZON: {"at_least": 0.0},
    DISCOUNT: {"at_least": 0.0, "at_most": 1.0},
    START: {"at_least": 0.0},
    FREQUENCY: {"at_least": 1.0},
}


class Learner:
    """The part of an agent that learns.

    Args:
        where: prefix of messages.
        form: the agent's normal form.
        states: the preprocessed states.
        actions: the actions.
        max_episode_timesteps: most timesteps of an episode; None if unknown.
        seed: seed of initial weights and all generators.

    Attributes:
        parameters: all numbers that an update depends on, by path in the normal form.
        facts: loss and metrics of the last update.
        metrics: names of an update's metrics.
    """

    def __init__(
        self,
        where: str,
        form: Mapping[str, Any],
        states: Mapping[str, Any],
        actions: Values,
        max_episode_timesteps: int | None,
        seed: int,
    ) -> None:
        self.form, self.longest = form, max_episode_timesteps
        self.by_episodes: bool = form["update"]["unit"] == "episodes"
        self.bootstraps = form["reward_estimation"]["estimate_horizon"] is not False
        self.rng = np.random.default_rng([seed, _INDEX_OF_PARAMETERS])
        self._hyper = bounds_of_fed(form)
        self.parameters: dict[str, Parameter] = {}
        for path, bounds in {**_BOUNDS, **self._hyper}.items():
            spec = at(form, path)
            if spec == "episode":
                spec = (max_episode_timesteps or 1) - 1
            if spec != "never":
                self.parameters[path] = make_parameter(f"{where}: {path}", spec, **bounds)
        known = [self.parameters[path].constant for path in (START, FREQUENCY) if path in self.parameters]
        self._timing = None if None in known else self._first_and_frequency(Counts(0, 0, 0), {})
        """The first update and the frequency, if they are constant."""
        self._build(states, actions, seed)
        self.memory.horizon = _steps(self.value(HORIZON, Counts(0, 0, 0), {}))
        self.facts: UpdateFacts | None = None
        self.loss = float("nan")
        self._has_skipped = False

    def _build(self, states: Mapping[str, Any], actions: Values, seed: int) -> None:
        from ....core.tensorflow_import import load_tensorflow

        load_tensorflow()
        from ....runtimes.tracing.program import Program
        from ....runtimes.tracing.signature import BoundModelFn
        from ..model.function import model_fn

        observation = {name: spec.array for name, spec in states.items()}
        observation |= {f"{name}{MASK}": spec.mask for name, spec in actions.flat.items() if spec.type == "int"}
        params = {"form": self.form, "states": dict(states), "actions": dict(actions.flat)}
        bound = BoundModelFn(model_fn, params, RunConfig(seed=seed, progress=False), None)
        self._make_program = functools.partial(Program, bound, observation, model_seed(seed))
        self.program = program = self._make_program()
        self._rngs = generators(seed)
        update, memory = self.form["update"], self.form["memory"]
        specs = {"observation": observation, "action": {name: spec.array for name, spec in actions.flat.items()}}
        specs["state"] = dict(program.predict.state or {})
        capacity = memory["capacity"] or least_capacity(self.form, self.longest)
        self.memory = Trajectories(
            capacity,
            specs,
            self._rngs["memory"],
            episodes=self.by_episodes,
            size=update["batch_size"],
            recent=memory["type"] == "recent",
            longest=self.longest or 0,
            bootstraps=self.bootstraps,
            window=max([1, *internal_lengths(self.form)]),
        )
        self.memory.hyper = dict.fromkeys(self._hyper, np.zeros((), np.float32))
        self._sizes = _sizes(self.memory.rows) if self.by_episodes else [self.memory.rows]
        self.memory.rows = self._sizes[0]
        self.initial_internals = {n: array[0] for n, array in (zero_state(program.predict.state, 1) or {}).items()}
        """Zeros by name; empty without internals."""
        self.stepper = self._stepper(program)
        self._steppers = {self.memory.rows: self.stepper}

    def _stepper(self, program: Program) -> Stepper:
        """Stepper for batches of the memory's current number of rows, with its own weights."""
        from ....estimators.limits import UpdateSchedule
        from ....estimators.stepper import Stepper
        from ....runtimes.executor_choice import choose

        train = program.trace_train(self.memory.specs())
        self.metrics = tuple(train.metrics)
        executor, _ = choose(program, train, "auto", None, shared_content)
        sampled: Any = self.memory  # the stepper only samples: timesteps are stored here
        # The user may set a learning rate of 0, with which the first update changes nothing.
        return Stepper(program.predict, train, executor, sampled, 1, self._rngs, UpdateSchedule(1, 1))

    def store(
        self,
        lane: Parallel,
        timestep: Timestep,
        terminal: int,
        following: Mapping[str, Array] | None = None,
        *,
        whole: bool = False,
    ) -> None:
        """Store a lane's timestep: at once, or with its whole episode if updates count episodes.

        Args:
            lane: the lane, with the internals after the timestep.
            timestep: the completed timestep.
            terminal: 0, 1 or 2.
            following: the inputs after the end, if known.
            whole: always store it with its episode.
        """
        lane.timesteps.append(timestep)
        if terminal or not (whole or self.by_episodes):
            for one in lane.timesteps:
                self.memory.append(one.features, one.action, one.internals, one.reward)
            lane.timesteps.clear()
        rewards = self.form["reward_estimation"]
        if not terminal:
            return
        if not self.bootstraps or (terminal == TERMINATED and not rewards["estimate_terminal"]):
            self.memory.end(TERMINATED)
        elif following is not None:
            self.memory.end(ABORTED, following, lane.internals)
        # The next states are unknown: the last timestep's own states stand in for them, or its reward would be lost
        # otherwise; but if values of later timesteps are estimated early, their value replaces the reward.
        elif terminal == TERMINATED or rewards["estimate_horizon"] == "late":
            self.memory.end(ABORTED, *self.memory.newest())
        else:
            self.memory.end(CUT)

    def value(self, path: str, counts: Counts, overrides: Mapping[str, float]) -> float:
        """The current value of a parameter, unless ``overrides`` has it; random parameters draw."""
        return overrides[path] if path in overrides else self.parameters[path].value(counts, self.rng)

    def timing(self, counts: Counts, overrides: Mapping[str, float]) -> tuple[int, int | None]:
        """Timesteps or episodes requested before the first update, and between updates.

        The latter are at least 1; None: never.
        """
        start = round(self.value(START, counts, overrides))
        if FREQUENCY not in self.parameters and FREQUENCY not in overrides:
            return start, None
        return start, max(round(self.value(FREQUENCY, counts, overrides)), 1)

    def due(self, counts: Counts, overrides: Mapping[str, float]) -> bool:
        """Is an update due, just after an episode or a timestep was counted?"""
        count = counts.episodes if self.by_episodes else counts.timesteps
        known = None if overrides else self._timing
        first, frequency = self._first_and_frequency(counts, overrides) if known is None else known
        return frequency is not None and count >= first and (count - first) % frequency == 0

    def _first_and_frequency(self, counts: Counts, overrides: Mapping[str, float]) -> tuple[int, int | None]:
        start, frequency = self.timing(counts, overrides)
        return first_update(self.form, self.longest, start), frequency

    def values(self, counts: Counts, overrides: Mapping[str, float]) -> dict[str, float]:
        """Values fed to an update, by path: its horizon, its discount and the model's numbers."""
        return {path: self.value(path, counts, overrides) for path in (HORIZON, DISCOUNT, *self._hyper)}

    def prepare(self, counts: Counts, overrides: Mapping[str, float]) -> bool:
        """Set the parameters of the next update, including the horizon; returns whether enough is stored for it.

        Args:
            counts: the agent's counts.
            overrides: values for this call, by path in the normal form.
        """
        memory = self.memory
        values = self.values(counts, overrides)
        memory.horizon = _steps(values.pop(HORIZON))
        memory.discount = values.pop(DISCOUNT)
        memory.hyper = {path: np.array(value, np.float32) for path, value in values.items()}
        return memory.can_sample()

    def skip(self, timestep: int) -> None:
        """Log once that an update was due with too little in the memory."""
        if not self._has_skipped:
            self._has_skipped = True
            skipped = f"An update was due at timestep {timestep} and skipped"
            stored = self.memory.batch_size, self.memory.available()
            logger.warning("%s: a batch needs %s, but only %s usable ones are stored.", skipped, *stored)

    def learn(self) -> UpdateFacts:
        """Run an update, after :meth:`prepare`; returns its loss and metrics."""
        drawn = self.memory.draw()
        rows = next(size for size in self._sizes if size >= drawn)
        if rows != self.memory.rows:  # TRAIN is traced for each number of rows, and programs share no variables
            before, self.memory.rows = self.stepper, rows
            if rows not in self._steppers:
                self._steppers[rows] = self._stepper(self._make_program())
            self.stepper = self._steppers[rows]
            self.stepper.set_weights(before.weights())
            self.stepper.counters = before.counters
        self.facts = self.stepper.learn()
        self.loss = self.facts.loss
        return self.facts

    @contextlib.contextmanager
    def undone(self) -> Iterator[None]:
        """Context in which evaluating parameters does not advance random ones."""
        drawn, states = self.rng.bit_generator.state, {k: one.state_dict() for k, one in self.parameters.items()}
        try:
            yield
        finally:
            self.rng.bit_generator.state = drawn
            for path, state in states.items():
                self.parameters[path].load_state_dict(state)


def _steps(horizon: float) -> int:
    return min(round(horizon), 10**9)


def _sizes(most: int) -> list[int]:
    """Numbers of rows of batches of episodes, ascending: the longest possible, a quarter of it, and so on."""
    sizes = [most]
    while sizes[-1] > _FEWER * _LEAST_ROWS:
        sizes.append(-(-sizes[-1] // _FEWER))
    return sizes[::-1]


def learning_rate_path(optimizer: Mapping[str, Any], path: str = "optimizer") -> str:
    """Path of the innermost optimizer's learning rate in the normal form; of two optimizers, the first one's."""
    if "learning_rate" in optimizer:
        return f"{path}/learning_rate"
    inner = "optimizer1" if optimizer["type"] == "plus" else "optimizer"
    return learning_rate_path(optimizer[inner], f"{path}/{inner}")
