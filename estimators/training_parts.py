"""The parts of a training, made when its first session is opened."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..core.protocols import Memory, SpecTree
from ..core.tensorflow_import import collections_paused
from ..environments.spaces import action_spec
from ..policies.executors import Executor
from ..policies.reasons import Choice
from ..run_dir.generators import generators
from ..run_dir.starts import began_in
from .batch_layout import check_td_error, introduce, shapes_of
from .episodes import Episodes
from .experience_sources import Lanes
from .limits import UpdateSchedule
from .model import Model
from .run import Run
from .state import TrainingState
from .stepper import Stepper
from .warm_start import Taken, WarmStart, take


@dataclasses.dataclass(frozen=True)
class TrainingParts:
    """A model with its executor, a memory built for the lanes, and the state of their training."""

    state: TrainingState
    choice: Choice
    hooks: tuple[Any, ...]
    """Hooks of the TRAIN spec."""
    inexact_ops: tuple[str, ...]
    taken: Taken | None
    """Weights taken over by a warm start; None for a resumed run, or a run with its own initial weights."""
    transition: Mapping[str, SpecTree]
    """Specs of one lane's transition."""
    initial: Mapping[str, Any]
    """Digests of the program's initial values."""


@collections_paused()
def build_parts(
    run: Run,
    model: Model,
    memory: Memory,
    lanes: Lanes,
    schedule: UpdateSchedule | None,
    warm_start: WarmStart | None,
) -> TrainingParts:
    """Build the parts of a training.

    Args:
        run: the run.
        model: traced or compiled here for the batches of the memory.
        memory: not built.
        lanes: sources of experience.
        schedule: checked against the memory; None to check one later.
        warm_start: source of a new run's initial weights.

    Raises:
        ValueError: model, memory and spaces do not fit together.
    """
    model.learns_from(memory, lanes.number)
    program = model.program
    predict, is_new = program.predict, run.store.newest() is None
    introduce(memory, *lanes.spaces_and_env(), began_in(run.model_dir))
    spaces = lanes.observation_space, lanes.action_space
    shapes = shapes_of(predict, *spaces, memory, lanes.number, schedule, lanes.masks)
    with model.lock:  # meanwhile no other thread acts, nor sets weights to act
        train, executor, choice = model.prepare_training(shapes.batch)
        check_td_error(train, memory)
        initial = model.initial_values()
        if not is_new:
            run.compare_initial(initial)
        taken = _apply_warm_start(warm_start, model, executor) if warm_start is not None and is_new else None
    rngs = generators(run.seed)
    if hasattr(memory, "place_in"):
        memory.place_in(run.model_dir)
    memory.build(shapes.transition, lanes.number, rngs["memory"])  # last, so that a failed attempt can be repeated
    if hasattr(memory, "trust_identity"):  # arrays passed to it do not change during an episode
        memory.trust_identity()
    stepper = Stepper(predict, train, executor, memory, lanes.number, rngs, UpdateSchedule(), lock=model.lock)
    state = TrainingState(stepper, Episodes(lanes.number, action_spec(lanes.action_space), run.seed))
    inexact_ops = tuple(sorted({*predict.not_exact, *train.not_exact}))
    return TrainingParts(state, choice, train.training_hooks, inexact_ops, taken, shapes.transition, initial)


def _apply_warm_start(warm_start: WarmStart, model: Model, executor: Executor) -> Taken:
    """Set the initial weights that the warm start provides."""
    taken = take(warm_start, model.program.variables(), model.program.predict_variables())
    executor.set_weights({**executor.get_weights(), **taken.weights})
    return taken
