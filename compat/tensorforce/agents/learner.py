"""What learns: a traced model with its memory, the numbers it is fed with, and when updates are due."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ....core.protocols import Array, ArraySpec, RunConfig, SpecTree
from ....hooks.events import UpdateFacts
from ....policies.behaviour import zero_state
from ....run_dir.generators import generators, model_seed
from ....run_dir.programs import shared
from ..processing.parameters import Counts, Parameter, make_parameter
from ..spaces.specs import MASK, Values
from ..specs.normal_form import at, fed, first_update, least_capacity
from .timestep_buffer import ABORTED, CUT, TERMINATED, Layout
from .trajectories import Batches, Trajectories

if TYPE_CHECKING:
    from ....estimators.stepper import Stepper
    from ....runtimes.tracing.program import Program

_FEWER: Final = 4
"""How many times the rows of a size those of the next one are: few traces, and few rows for nothing."""
_LEAST_ROWS: Final = 100
"""Fewer rows hardly make an update faster."""
_INDEX_OF_PARAMETERS: Final = 5
"""Of the generator that random parameters draw from, among those that follow from the seed."""
_AT_MOST_ONE: Final = ("discount", "update_weight")
_AT_LEAST_ONE: Final = ("frequency", "sync_frequency")
_POSITIVE: Final = ("gradient_norm_clipping", "threshold", "ls_parameter")
"""Last words of the paths of parameters that are more than not negative."""


class Learner:
    """The part of an agent that learns.

    Args:
        where: for messages.
        form: the agent's normal form.
        states: what the model sees: preprocessed.
        actions: what it chooses.
        max_episode_timesteps: of an episode; None if unknown.
        seed: of initial weights and all generators.
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
        self.form = form
        """The agent's normal form."""
        update, rewards = form["update"], form["reward_estimation"]
        self.by_episodes: bool = update["unit"] == "episodes"
        self.start = self._parameter(where, "update/start")
        self.learning_rate_path = _learning_rate_path(form["optimizer"])
        self.bootstraps = rewards["estimate_horizon"] is not False
        self.longest = max_episode_timesteps
        self.rng = np.random.default_rng([seed, _INDEX_OF_PARAMETERS])
        self.frequency = None if update["frequency"] == "never" else self._parameter(where, "update/frequency")
        horizon = rewards["horizon"]
        spec = (max_episode_timesteps or 1) - 1 if horizon == "episode" else horizon
        self.horizon = make_parameter(f"{where}: reward_estimation['horizon']", spec, at_least=0)
        self.discount = self._parameter(where, "reward_estimation/discount")
        self.hyper = {path: self._parameter(where, path) for path in fed(form)}
        self._build(where, states, actions, seed)
        self._look_ahead(self.horizon.value(Counts(0, 0, 0), self.rng))
        self.facts: UpdateFacts | None = None
        """Loss and metrics of the last update."""
        self.loss = float("nan")

    def _parameter(self, where: str, path: str) -> Parameter:
        return make_parameter(f"{where}: {path}", at(self.form, path), **bounds(path))

    def _build(self, where: str, states: Mapping[str, Any], actions: Values, seed: int) -> None:
        from ....core.tensorflow_import import load_tensorflow

        load_tensorflow()
        from ....runtimes.tracing.program import Program
        from ....runtimes.tracing.signature import BoundModelFn
        from ..model.function import model_fn

        observation = {name: spec.array for name, spec in states.items()}
        masks = {f"{name}{MASK}": spec.mask for name, spec in actions.flat.items() if spec.type == "int"}
        params = {"form": self.form, "states": dict(states), "actions": dict(actions.flat)}
        bound = BoundModelFn(model_fn, params, RunConfig(seed=seed, progress=False), None)
        self._make_program = functools.partial(Program, bound, {**observation, **masks}, model_seed(seed))
        self.program = program = self._make_program()
        self._layout = Layout(
            {**observation, **masks},
            {name: spec.array for name, spec in actions.flat.items()},
            program.predict.state or {},
            actions.single,
        )
        self._state = program.predict.state
        self._rngs = generators(seed)
        self.memory = self._memory(where, self._layout, self._rngs["memory"])
        self._sizes = _sizes(self.memory.rows) if self.by_episodes else [self.memory.rows]
        self.memory.rows = self._sizes[0]
        self.stepper = self._stepper(program)
        self._steppers = {self.memory.rows: self.stepper}

    def _stepper(self, program: Program) -> Stepper:
        """One for batches of as many rows as the memory returns now; it has its own weights."""
        from ....estimators.limits import UpdateSchedule
        from ....estimators.stepper import Stepper
        from ....runtimes.executor_choice import choose

        train = program.trace_train(self._batch_specs(self._layout, self.memory.batches))
        self.metrics = tuple(train.metrics)
        """Names of what an update measures beside its loss."""
        executor, _ = choose(program, train, "auto", None, shared)
        sampled: Any = self.memory  # the stepper only samples: lanes are stored here
        # A learning rate of 0 is the user's business: the first update may change nothing.
        return Stepper(program.predict, train, executor, sampled, 1, self._rngs, UpdateSchedule(1, 1))

    def _resize(self, rows: int) -> None:
        """Let the next batch have so many rows: TRAIN is traced for each number, and programs share no variables."""
        before, self.memory.rows = self.stepper, rows
        if rows not in self._steppers:
            self._steppers[rows] = self._stepper(self._make_program())
        self.stepper = self._steppers[rows]
        self.stepper.set_weights(before.weights())
        self.stepper.counters = before.counters

    def _memory(self, where: str, layout: Layout, rng: np.random.Generator) -> Trajectories:
        memory, update = self.form["memory"], self.form["update"]
        least = least_capacity(self.form, self.longest)
        capacity = least if memory["capacity"] is None else memory["capacity"]
        batches = Batches(
            episodes=self.by_episodes,
            size=update["batch_size"],
            recent=memory["type"] == "recent",
            longest=self.longest or 0,
            bootstraps=self.bootstraps,
            window=longest_window(self.form),
        )
        return Trajectories(capacity, layout, batches, rng)

    def _batch_specs(self, layout: Layout, batches: Batches) -> dict[str, SpecTree]:
        """What :meth:`Trajectories.sample` returns."""
        rows = self.memory.rows
        window = (batches.window,) if batches.window > 1 else ()

        def of(specs: Mapping[str, ArraySpec], *axes: int) -> dict[str, ArraySpec]:
            return {name: ArraySpec((rows, *axes, *spec.shape), spec.dtype) for name, spec in specs.items()}

        floats = {
            name: ArraySpec(spec.shape, np.float32) if spec.dtype == np.bool_ else spec
            for name, spec in layout.action.items()
        }
        action = of(floats)
        scalar = ArraySpec((rows,), np.float32)
        specs: dict[str, Any] = {
            "observation": of(layout.observation, *window),
            "action": next(iter(action.values())) if layout.single_action else action,
            "reward": scalar,
            "valid": scalar,
            "hyper": dict.fromkeys(self.hyper, ArraySpec((), np.float32)),
        }
        valid = ArraySpec((rows, batches.window), np.bool_)
        if layout.state:
            specs |= {"state": of(layout.state), "window_valid": valid}
        if batches.bootstraps:
            specs |= {"next_observation": specs["observation"], "discount": scalar}
            if layout.state:
                specs |= {"next_state": of(layout.state), "next_window_valid": valid}
        return specs

    # -- acting -------------------------------------------------------------------------------------------------------

    def predict(
        self, features: Mapping[str, Array], internals: Mapping[str, Array] | None
    ) -> tuple[dict[str, Any], dict[str, Array] | None]:
        """Predictions [B, ...] and the next internals, with the weights as they are."""
        if internals is None:
            return self.stepper.executor.act(features)
        return self.stepper.executor.act({"observation": features, "state": dict(internals)})

    def initial_internals(self) -> dict[str, Array] | None:
        """Zeros [1, ...] by name; None without internals."""
        return zero_state(self._state, 1)

    # -- learning -----------------------------------------------------------------------------------------------------

    def end(self, code: int, observation: Mapping[str, Array] | None, state: Mapping[str, Array] | None) -> None:
        """The episode that was stored last is over; ``code`` is 1, or 2 with or without what would have come next.

        What came next may be unknown. Then it is taken to be what the last timestep acted in, as its reward would be
        lost otherwise; but where values of later timesteps are estimated early, that value stands for the reward.
        """
        rewards = self.form["reward_estimation"]
        if not self.bootstraps or (code == TERMINATED and not rewards["estimate_terminal"]):
            self.memory.end(TERMINATED)
        elif observation is not None:
            self.memory.end(ABORTED, observation, state)
        elif code == TERMINATED or rewards["estimate_horizon"] == "late":
            self.memory.end(ABORTED, *self.memory.newest())
        else:
            self.memory.end(CUT)

    def due(self, counts: Counts, overrides: Mapping[str, float]) -> bool:
        """Is an update due, right after an episode or a timestep was counted?"""
        count = counts.episodes if self.by_episodes else counts.timesteps
        first = first_update(self.form, self.longest, self.start_at(counts, overrides))
        frequency = self.frequency_at(counts, overrides)
        return frequency is not None and count >= first and (count - first) % frequency == 0

    def start_at(self, counts: Counts, overrides: Mapping[str, float]) -> int:
        """Timesteps or episodes before the first update, as far as that was asked for."""
        value = overrides.get("update/start")
        return round(self.start.value(counts, self.rng) if value is None else value)

    def frequency_at(self, counts: Counts, overrides: Mapping[str, float]) -> int | None:
        """Timesteps or episodes between updates, at least 1; None for never."""
        if "update/frequency" in overrides:
            return max(round(overrides["update/frequency"]), 1)
        return None if self.frequency is None else max(round(self.frequency.value(counts, self.rng)), 1)

    def prepare(self, counts: Counts, overrides: Mapping[str, float]) -> bool:
        """Set the parameters of the next update, among them the horizon; is enough stored for it?

        Args:
            counts: the agent's.
            overrides: of this call, by path in the normal form.
        """
        memory = self.memory
        values = self.values(counts, overrides)
        self._look_ahead(values.pop("reward_estimation/horizon"))
        memory.discount = values.pop("reward_estimation/discount")
        memory.hyper = {path: np.array(value, np.float32) for path, value in values.items()}
        return memory.can_sample()

    def learn(self) -> float:
        """One update, after :meth:`prepare`; returns its loss."""
        drawn = self.memory.draw()
        rows = next(size for size in self._sizes if size >= drawn)
        if rows != self.memory.rows:
            self._resize(rows)
        self.facts = self.stepper.learn()
        self.loss = self.facts.loss
        return self.loss

    def _look_ahead(self, horizon: float) -> None:
        self.memory.horizon = min(round(horizon), 10**9)

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within it parameters may be evaluated, and random ones are afterwards as if they had not been."""
        drawn = self.drawn()
        try:
            yield
        finally:
            self.draw_again(drawn)

    def values(self, counts: Counts, overrides: Mapping[str, float]) -> dict[str, float]:
        """Every parameter of an update by its path in the normal form."""
        parameters = {
            "reward_estimation/horizon": self.horizon,
            "reward_estimation/discount": self.discount,
            **self.hyper,
        }
        return {
            path: overrides[path] if path in overrides else parameter.value(counts, self.rng)
            for path, parameter in parameters.items()
        }

    def drawn(self) -> Any:
        """How far chance has come in the parameters, for :meth:`draw_again`."""
        return self.rng.bit_generator.state, [one.state_dict() for one in self.parameters()]

    def draw_again(self, drawn: Any) -> None:
        """Random parameters will be what they were after :meth:`drawn`."""
        self.rng.bit_generator.state, states = drawn
        for one, state in zip(self.parameters(), states, strict=True):
            one.load_state_dict(state)

    def parameters(self) -> Iterable[Parameter]:
        """All that have a state."""
        every = [self.horizon, self.discount, self.start, *self.hyper.values()]
        return every if self.frequency is None else [*every, self.frequency]


def bounds(path: str) -> dict[str, float]:
    """Of the parameter under a path of the normal form, as ``number`` takes them."""
    name = path.rpartition("/")[2]
    if name in _POSITIVE:
        return {"above": 0.0}
    limits = {"at_least": 1.0 if name in _AT_LEAST_ONE else 0.0}
    return {**limits, "at_most": 1.0} if name in _AT_MOST_ONE else limits


def _sizes(most: int) -> list[int]:
    """Numbers of rows that batches of episodes have, ascending: as many as episodes can have, a quarter, and so on."""
    sizes = [most]
    while sizes[-1] > _FEWER * _LEAST_ROWS:
        sizes.append(-(-sizes[-1] // _FEWER))
    return sizes[::-1]


def longest_window(form: Any) -> int:
    """How many timesteps the internal layers of a form's networks look back, itself included."""
    if isinstance(form, Mapping):
        own = [int(form["internal_rnn"])] if form.get("internal_rnn") else []
        if str(form.get("type", "")).startswith("internal_"):
            own.append(int(form["length"]))
        return max([1, *own, *map(longest_window, form.values())])
    return max([1, *map(longest_window, form)]) if isinstance(form, list | tuple) else 1


def _learning_rate_path(optimizer: Mapping[str, Any], path: str = "optimizer") -> str:
    """Where the innermost optimizer's learning rate is in the normal form; of two the first one's."""
    if "learning_rate" in optimizer:
        return f"{path}/learning_rate"
    inner = "optimizer1" if optimizer["type"] == "plus" else "optimizer"
    return _learning_rate_path(optimizer[inner], f"{path}/{inner}")
