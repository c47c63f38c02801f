"""The model of a run: a program and its executor."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..core.checks import refuse_non_finite
from ..core.protocols import Array, Exploration, Memory, SpecTree, State
from ..core.schedules import follows_run
from ..core.tensorflow_import import collections_paused
from ..explorations import Greedy
from ..policies.actor import ActorProgram
from ..policies.behaviour import zero_state
from ..policies.description import Normalization, Part
from ..policies.executors import Acted, Executor
from ..policies.modes import ModelProgram, PredictMode, TrainMode
from ..policies.reasons import LITERT, TENSORFLOW, Choice
from ..policies.weight_patches import FrozenActor, FrozenProgram
from ..run_dir.initial_values import digests
from ..run_dir.snapshot import Counters, PolicySnapshot
from . import program_cache
from .limits import Limits
from .program_cache import Experience, Key
from .run import Run

if TYPE_CHECKING:
    from .compiled import CompiledModel
    from .eval_mode import EvalMode
    from .traced import TracedModel

logger = logging.getLogger("axonrl")
_T = TypeVar("_T")
Act = Callable[..., Acted]
"""Maps features [N, ...] to predictions and the next recurrent state."""


class Model:
    """The program of a run, either traced for its spaces or compiled earlier, and its executor.

    Args:
        run: provides the program, and the recorded executors.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.lock = threading.RLock()
        """Held during use of an executor, as all executors of this model share variables."""
        self._traced: TracedModel | None = None
        self._executor: Executor | None = None
        self._trains = self._acts = False
        self._is_fresh = True  # do the variables have their initial values, but for the following?
        self._replaced: Mapping[str, Array] = {}  # initial values of PREDICT's variables, where a policy has acted
        self._experience: Experience | None = None
        self._is_litert = self._is_kept = False
        self._untrained_exploration: State | None = None
        self._key: Key | None = None
        """Key of the program in the cache, before the trace."""

    @functools.cached_property
    def _source(self) -> TracedModel | CompiledModel:
        from .compiled import CompiledModel

        run, experience = self._run, self._known_experience()
        if run.compiled is not None:
            return CompiledModel(run, run.compiled)
        self._key = None if experience is None else program_cache.key_of(run, experience)
        if (program := program_cache.find(run, self._key)) is not None:
            run.spaces_fixed = True
            return CompiledModel(run, program, self._trace)
        return self._trace()

    def _trace(self) -> TracedModel:
        """Trace the function itself, also for tasks that need TensorFlow while a cached program is in use."""
        if self._traced is None:
            from .traced import TracedModel

            self._traced = TracedModel(self._run)
            self._run.spaces_fixed = True
        return self._traced

    def _known_experience(self) -> Experience | None:
        """The source of learning, in this process or as recorded."""
        record = self._run.record
        if self._experience is None and record is not None:
            return Experience(record.memory, record.num_envs)
        return self._experience

    def learns_from(self, memory: Memory, lanes: int) -> None:
        """Learn from this memory, in this number of environments."""
        self._experience = Experience.of(memory, lanes)

    @collections_paused()
    def keep(self) -> None:
        """Store the program in the cache for the next run, if this one was traced and trained in LiteRT."""
        traced = None if self._is_kept or self._traced is None else self._traced.traced
        if traced is None or self._experience is None or not self._is_litert:
            return
        self._is_kept = True
        with self.lock:
            program_cache.keep(self._run, self._experience, traced, self._key)

    @property
    def program(self) -> ModelProgram:
        """The traced or compiled program."""
        return self._source.program

    @property
    def executor(self) -> Executor:
        """Executor for acting; also for learning after :meth:`prepare_training`."""
        if self._executor is None:
            run = self._run
            kept = run.record.runtime if run.record is not None and run.config.runtime == "auto" else None
            self._executor, _ = self._or_traced(lambda source: self._choose(source, kept))
        return self._executor

    def prepare_training(self, batch: Mapping[str, SpecTree]) -> tuple[TrainMode, Executor, Choice]:
        """TRAIN for these batches, and its executor: the recorded one, if there is a record.

        Raises:
            ValueError: the function is invalid, or the run was started with another runtime.
        """
        run = self._run
        runtime, kept = run.config.runtime, None if run.record is None else run.record.runtime
        if kept is not None and runtime != "auto" and set(kept.values()) != {runtime}:
            started = ", ".join(f"the {part} in {kind}" for part, kind in kept.items())
            raise ValueError(
                f"{run.model_dir} was started with {started}; got runtime={runtime!r}: choose another model_dir"
            )
        train, (self._executor, choice) = self._or_traced(
            lambda source: (source.train(batch), self._choose(source, kept))
        )
        self._trains = True
        return train, self._executor, choice

    def _or_traced(self, use: Callable[[TracedModel | CompiledModel], _T]) -> _T:
        """Use the source; replace a cached program that turns out to be unusable by the function itself.

        That happens if the memory yields other batches than recorded, or another process removed the program.
        """
        source = self._source
        try:
            return use(source)
        except ValueError as error:
            if source is self._traced or self._run.compiled is not None:
                raise
            logger.info("The program in the cache is not used: %s", error)
            self._source = self._trace()
            return use(self._source)

    def initial_values(self) -> dict[str, Any]:
        """Digests of the variables' initial values, after the first :meth:`prepare_training`.

        Empty in later calls, and if the program has none for the run's seed.
        """
        program = self._run.compiled
        is_known = self._is_fresh and (program is None or program.has_seed(self._run.seed))
        found = digests({**self.executor.get_weights(), **self._replaced}) if is_known else {}
        self._is_fresh, self._replaced = False, {}
        return found

    def _choose(self, source: TracedModel | CompiledModel, kept: Mapping[str, str] | None) -> tuple[Executor, Choice]:
        executor, choice = source.choose(kept)
        exploration: Any = source.program.predict.exploration
        if self._untrained_exploration is None and hasattr(exploration, "state_dict"):
            self._untrained_exploration = copy.deepcopy(exploration.state_dict())
        self._is_litert = TENSORFLOW not in choice.runtimes.values()
        logger.info("%s", choice)
        return executor, choice

    @functools.cached_property
    def eval_mode(self) -> EvalMode:
        """EVAL on batches of the memory, after :meth:`prepare_training`. ``ValueError`` if there is none."""
        return self._source.eval_mode()

    def actor(self, policy: PolicySnapshot, runtime: str = LITERT) -> ActorProgram:
        """PREDICT with a policy's weights, to be sent to a process that acts during training.

        Args:
            policy: provides the weights.
            runtime: ``"litert"``, without TensorFlow; ``"tensorflow"`` traces the function again in the other process.

        Raises:
            ValueError: LiteRT cannot run it (names the op); or it is compiled, so there is no function.
        """
        with self.lock:  # as in acting_program
            program = self.program
            mode = {field.name: getattr(program.predict, field.name) for field in dataclasses.fields(PredictMode)}
            return ActorProgram(
                name=program.name,
                predict=PredictMode(**{**mode, "evaluation_hooks": ()}),  # without the traced function
                variables_of_predict=program.predict_variables(),
                content=self._or_traced(
                    lambda source: source.acting_program(noise=True) if runtime == LITERT else source.retraced()
                ),
                weights=self.predict_weights(policy),
                version=policy.counters.global_step,
                action_space=self._run.config.action_space,
            )

    def acting_program(self) -> FrozenProgram | bytes:
        """PREDICT alone in LiteRT, for export.

        Returns:
            A frozen program if that is faster and possible; otherwise the content of a file whose weights are set by
            the signature ``set``.

        Raises:
            ValueError: LiteRT cannot run it (names the op).
        """
        with self.lock:  # the trial of a conversion uses TensorFlow's variables
            return self._or_traced(lambda source: source.acting_program())

    def onnx_model(
        self,
        policy: PolicySnapshot,
        observation: tuple[Sequence[Part], Mapping[str, Normalization]],
        action_space: Mapping[str, Any],
    ) -> bytes:
        """PREDICT with a policy's weights as an ONNX model, from raw observations to the environment's actions.

        Args:
            policy: provides the weights.
            observation: its arrays, and their preprocessing.
            action_space: attributes of the action space.

        Raises:
            ValueError: ONNX lacks an op (names it); or the model is compiled, so there is no function.
        """
        return self._source.onnx_model(self.predict_weights(policy), observation, action_space)

    def exploration_alone(self) -> Exploration:
        """Copy the behaviour policy for acting outside the training, without its state of the training's lanes."""
        exploration: Any = copy.deepcopy(self.program.predict.exploration)
        if self._untrained_exploration is not None:
            exploration.load_state_dict(copy.deepcopy(self._untrained_exploration))
        return Greedy() if exploration is None else cast("Exploration", exploration)

    def tell_progress(self, exploration: Any, counters: Counters) -> None:
        """Set the progress of the run at these counters, for an exploration that follows it; 0 before any training."""
        record = self._run.record
        if follows_run(exploration) and record is not None and record.limits:
            exploration.follow(Limits(**record.limits).progress(counters))

    def fresh_state(self, size: int) -> dict[str, Array] | None:
        """Zeros [size, ...] for each recurrent state; None if the model has none."""
        return zero_state(self.program.predict.state, size)

    @contextlib.contextmanager
    def acting(self, policy: PolicySnapshot, *, resting: bool = False) -> Iterator[Act]:
        """Act with a policy's weights while other threads wait.

        Weights in training are restored afterwards, and those of another policy in whose context this one is entered.

        Args:
            policy: provides the weights.
            resting: may a frozen program act? It is faster if the weights stay the same for many actions.

        Raises:
            ValueError: the weights belong to another model.
            NonFiniteError: a weight is NaN or infinite.
        """
        with self.lock:
            executor = self.executor
            weights = self.predict_weights(policy)
            if resting and self._frozen is not None:
                frozen = copy.copy(self._frozen)
                frozen.set_weights(weights)
                yield frozen.act
                return
            own, within = executor.get_predict_weights(), self._acts
            differs = not all(np.array_equal(own[name], value) for name, value in weights.items())
            if self._is_fresh and differs and not self._replaced:
                self._replaced = own
            self._acts = True
            try:
                if differs:
                    executor.set_weights(weights)
                yield executor.act
            finally:
                self._acts = within
                if differs and (self._trains or within):
                    executor.set_weights(own)

    def predict_weights(self, policy: PolicySnapshot) -> dict[str, Array]:
        """The weights PREDICT uses; errors as for :meth:`acting`."""
        names = self.executor.get_predict_weights()
        missing = [name for name in names if name not in policy.weights]
        if missing:
            raise ValueError(
                f"the policy {policy.name!r} of {self._run.model_dir} does not fit {self.program.name}: it lacks"
                f" {', '.join(missing)} and has {', '.join(sorted(policy.weights))}. Are model_fn and params those of"
                " the training?"
            )
        weights = {name: policy.weights[name] for name in names}
        refuse_non_finite(weights, f"in the policy {policy.name!r} of {self._run.model_dir}")
        return weights

    @functools.cached_property
    def _frozen(self) -> FrozenActor | None:
        return self._source.frozen()
