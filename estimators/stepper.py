"""Stepper: acting and learning, without environment, folder or hooks."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..core.errors import ArgumentError
from ..core.protocols import Array, ArrayTree, Memory, State
from ..core.schedules import follows_run
from ..environments import spaces
from ..explorations.returned_actions import level_of
from ..hooks.events import UpdateFacts
from ..memories.resharding import restore
from ..policies import compiled
from ..policies.behaviour import Behaviour
from ..policies.compiled import CompiledProgram
from ..policies.executors import Executor
from ..policies.learner import Learner
from ..policies.modes import PredictMode, TrainMode
from ..run_dir.generators import generators
from ..run_dir.snapshot import Counters, PolicySnapshot
from .batch_layout import check_batch, check_td_error, introduce, shapes_of
from .limits import Limits, UpdateSchedule
from .update_schedule import waiting

_PATIENCE: Final = 100
"""Updates after which an unchanged policy causes a warning."""
logger = logging.getLogger("axonrl")


class Stepper:
    """A program with its executor, memory, exploration, generators, schedule and counters.

    A *lane* is one stream of experience: one environment, or one caller. Arrays have a leading axis N, the number of
    lanes. Updates depend on ``global_timestep``: each :meth:`store` (or :meth:`store_one`) adds those that become due
    to ``pending_updates``, and the caller runs :meth:`learn` that many times.

    Args:
        predict: the acting mode.
        train: the learning mode.
        executor: runs both.
        memory: built for these lanes, with the generator ``"memory"`` of ``rngs``.
        lanes: N.
        rngs: the run's generators, by name.
        schedule: when updates are due; rollout memories ignore it.
        lock: held during each call, so that several threads can use the executor; shared with its other users.
    """

    def __init__(
        self,
        predict: PredictMode,
        train: TrainMode,
        executor: Executor,
        memory: Memory,
        lanes: int,
        rngs: dict[str, np.random.Generator],
        schedule: UpdateSchedule,
        *,
        lock: threading.RLock | None = None,
    ) -> None:
        self.lock = threading.RLock() if lock is None else lock
        self.executor = executor
        self.memory = memory
        self.lanes = lanes
        self.behaviour = Behaviour(predict, executor, lanes, rngs["exploration"])
        """The behaviour policy."""
        self.exploration = self.behaviour.exploration
        self.generators = rngs
        self.schedule = schedule
        self.counters = Counters()
        self.limits = Limits()
        """Limits of the run, which define its progress."""
        self.pending_updates = 0
        """Updates that are due and not run yet."""
        self._untrained: dict[str, Array] = {}
        self._metrics = train.metrics
        self._noise = train.noise
        self._tell_progress = getattr(self.exploration, "follow", None) if follows_run(self.exploration) else None
        self._reads_progress = train.reads_progress

    @classmethod
    def load(
        cls,
        directory: str | Path | CompiledProgram,
        memory: Memory,
        *,
        lanes: int = 1,
        seed: int | None = None,
        schedule: UpdateSchedule | None = None,
    ) -> Stepper:
        """Make a stepper from a program written by ``Agent.compile``; TensorFlow is not loaded.

        Args:
            directory: the program's folder, or the program itself, for example with other params.
            memory: a new one, with the compiled settings; built here.
            lanes: N.
            seed: for initial weights and all generators; None for that of the compilation.
            schedule: when updates are due; None for the default of ``Agent.train``.

        Raises:
            ValueError: as for :meth:`axonrl.policies.Learner.load`; the memory has other batches.
        """
        program = directory if isinstance(directory, CompiledProgram) else compiled.read(directory)
        learner = Learner(program, program.weights(program.seed if seed is None else seed))
        schedule = UpdateSchedule() if schedule is None else schedule
        observation, action = map(spaces.from_json, program.spaces)
        introduce(memory, observation, action)
        shapes = shapes_of(program.predict, observation, action, memory, lanes, schedule)
        check_batch(program, shapes.batch)
        check_td_error(program.train, memory)
        rngs = generators(program.seed if seed is None else seed)
        memory.build(shapes.transition, lanes, rngs["memory"])
        return cls(program.predict, program.train, learner, memory, lanes, rngs, waiting(schedule, memory))

    # -- acting -------------------------------------------------------------------------------------------------------

    def act(self, observation: ArrayTree, lanes: Array | None = None) -> tuple[ArrayTree, dict[str, Any]]:
        """Choose the behaviour policy's actions [N, ...]; returns them and the values to store with them.

        See :meth:`Behaviour.act <axonrl.policies.behaviour.Behaviour.act>` for arguments and errors.
        """
        with self.lock:
            if self._tell_progress is not None:
                self._tell_progress(self.progress)
            action, recorded, _ = self.behaviour.act(observation, self.counters.global_timestep, lanes)
            return action, recorded

    # -- learning -----------------------------------------------------------------------------------------------------

    def has_pending_updates(self, limits: Limits) -> bool:
        """Are updates pending that a limit on steps allows?"""
        return self.pending_updates > 0 and (limits.steps is None or self.counters.global_step < limits.steps)

    def store(self, batch: Mapping[str, Any], acted: Array | None = None) -> None:
        """Store a transition of every lane, count it, and add the updates that become due.

        Args:
            batch: ``observation, action, reward, terminated, truncated, next_observation`` and recorded extras,
                [N, ...].
            acted: bool [N], False for lanes without a transition; None if all have one.
        """
        with self.lock:
            if acted is None:
                self.memory.extend(**batch)
                self.count(self.lanes)
            else:
                self.memory.extend(acted, **batch)
                self.count(int(np.count_nonzero(acted)))

    def store_one(self, transition: Mapping[str, Any]) -> None:
        """Store a transition of a single lane, without a batch axis; faster than :meth:`store`."""
        with self.lock:
            self.memory.step(**transition)
            self.count(1)

    def count(self, timesteps: int) -> None:
        """Count timesteps that the memory has stored, and add the updates that become due."""
        counters = self.counters
        before = counters.global_timestep
        counters.global_timestep = now = before + timesteps
        if self.memory.is_rollout:
            self.pending_updates = int(self.memory.can_sample())
        elif now >= self.schedule.first_update:
            self.pending_updates += self.schedule.due_between(before, now)

    def learn(self) -> UpdateFacts:
        """Run one update on a batch of the memory."""
        with self.lock:
            return self._learn()

    def _learn(self) -> UpdateFacts:
        executor, memory, counters = self.executor, self.memory, self.counters
        if counters.global_step == 0:
            self._untrained = executor.get_predict_weights()
        batch = memory.sample()
        draws = [request.draw(self.generators["noise"]) for request in self._noise]
        numbers: dict[str, float] = {"global_step": counters.global_step, "global_timestep": counters.global_timestep}
        numbers["progress"] = self.progress if self._reads_progress else 0.0
        result = executor.train(batch, numbers, draws)
        counters.global_step += 1
        if counters.global_step == _PATIENCE:
            self.warn_unchanged()
        if result.td_error is not None:
            memory.update_priorities(result.td_error)
        if memory.is_rollout:
            memory.clear()
        loss, *metrics = result.scalars.tolist()
        return UpdateFacts(loss, dict(zip(self._metrics, metrics)))  # noqa: B905 (strict takes half as long again)

    def warn_unchanged(self) -> None:
        """Warn once if PREDICT has variables, and no update of the run has changed any of them."""
        before, self._untrained = self._untrained, {}
        after, updates = self.executor.get_predict_weights() if before else {}, self.counters.global_step
        if before and all(np.array_equal(value, after[name], equal_nan=True) for name, value in before.items()):
            logger.warning(
                "%s changed none of PREDICT's variables, so the policy does not learn. Was the target network built"
                " before the online one, is the learning rate zero, or are all rewards zero?",
                "the first update" if updates == 1 else f"the first {updates} updates",
            )

    @property
    def needs_limits(self) -> bool:
        """Does the model or the exploration depend on the run's progress?"""
        return self._reads_progress or self._tell_progress is not None

    @property
    def progress(self) -> float:
        """Progress of the run, 0 .. 1; 0 if it has no limits and nothing depends on it.

        Raises:
            ArgumentError: something depends on it, but the run has no limits.
        """
        if self.limits.by_kind():
            return self.limits.progress(self.counters)
        if self.needs_limits:
            raise no_limits()
        return 0.0

    # -- state --------------------------------------------------------------------------------------------------------

    def level(self) -> float:
        """Current level of exploration; NaN if unknown, or if it depends on the length of a run without limits."""
        if self._tell_progress is not None:
            if not self.limits.by_kind():
                return float("nan")
            self._tell_progress(self.progress)
        return level_of(self.exploration, self.counters.global_timestep)

    def weights(self) -> dict[str, Array]:
        """Every variable by name, copied: network, target network, optimizer."""
        with self.lock:
            return self.executor.get_weights()

    @property
    def _kind(self) -> str:
        """Kind of the memory; for shards, of the whole memory."""
        return type(getattr(self.memory, "whole", self.memory)).__name__

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables, or all; sets none, and raises ``ValueError``, if names, shapes or dtypes differ."""
        with self.lock:
            self.executor.set_weights(weights)

    def snapshot(self, name: str = "last", statistics: State | None = None) -> PolicySnapshot:
        """The current policy."""
        with self.lock:
            weights, counters = self.executor.get_predict_weights(), dataclasses.replace(self.counters)
        return PolicySnapshot(name, weights, statistics, counters)

    def state_dict(self) -> dict[str, Any]:
        """Everything that acting and learning depend on."""
        with self.lock:
            return {
                "counters": dataclasses.asdict(self.counters),
                "pending_updates": self.pending_updates,
                "weights": self.executor.get_weights(),
                "memory": {"kind": self._kind, "state": self.memory.state_dict()},
                **self.behaviour.state_dict(),
                "generators": {name: rng.bit_generator.state for name, rng in self.generators.items()},
            }

    def load_state_dict(self, state: Mapping[str, Any], *, other_lanes: bool = False) -> None:
        """Restore what :meth:`state_dict` returned.

        Args:
            state: the saved state.
            other_lanes: does the state have a different number of lanes? If so, per-lane states (recurrent,
                exploration) start over, and the contents of the memory are redistributed; a partial rollout is dropped.

        Raises:
            ValueError: it belongs to another model or memory.
        """
        with self.lock:
            self._take_over(state, other_lanes)

    def _take_over(self, state: Mapping[str, Any], other_lanes: bool) -> None:
        kind = self._kind
        if state["memory"]["kind"] != kind:
            raise ValueError(f"the checkpoint holds a {state['memory']['kind']}, but the Agent has a {kind}")
        had, has = set(state["weights"]), set(self.executor.get_weights())
        if had != has:
            raise ValueError(
                f"the variables differ: {', '.join(sorted(had - has)) or 'none'} are only in the checkpoint,"
                f" {', '.join(sorted(has - had)) or 'none'} only in the model"
            )
        self.executor.set_weights(state["weights"])
        restore(self.memory, state["memory"]["state"], other_lanes=other_lanes)
        if other_lanes:
            self.behaviour.begin(np.ones(self.lanes, np.bool_))
        else:
            self.behaviour.load_state_dict(state)
        self.counters = Counters(**state["counters"])
        self.pending_updates = 0 if other_lanes and self.memory.is_rollout else state["pending_updates"]
        for name, generator_state in state["generators"].items():
            self.generators[name].bit_generator.state = generator_state


def no_limits() -> ArgumentError:
    """The error for a run without limits if something depends on its progress."""
    return ArgumentError(
        "a schedule follows the run (over: run), or the model reads labels['progress'], so the run's length must be"
        " known: use agent.train with max_timesteps, max_steps or max_episodes (or timesteps, steps or episodes)",
        "max_timesteps",
    )
