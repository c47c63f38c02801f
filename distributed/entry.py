"""``Agent.train`` with a cluster: check the environment and the memory, then drive."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from ..estimators.experience_sources import Lanes
from ..estimators.limits import Goal, UpdateSchedule
from ..hooks.hook import Hooks
from .driver import Driver
from .environment_recipes import recipe_of, refuse_unsuitable
from .learner_memory import lanes_in, make_learner_memory
from .replay import ShardedReplay

if TYPE_CHECKING:
    from ..estimators.model import Model
    from ..estimators.state import TrainingState
    from ..estimators.stepper import Stepper
    from ..estimators.trainer import Trainer
    from .settings import Settings

logger = logging.getLogger("axonrl")


def train(
    cluster: Settings,
    trainer: Trainer,
    model: Model,
    env: Any,
    hooks: Hooks,
    schedule: UpdateSchedule,
    goal: Goal,
) -> None:
    """Train as ``Agent.train`` with a cluster.

    Raises:
        ArgumentError: the environment, memory or model cannot be used in a cluster; the message says what can.
        ClusterError: actors cannot work, or the training has stalled.
    """
    recipe, memory = recipe_of(env), make_learner_memory(cluster, trainer.needed_memory())
    with contextlib.ExitStack() as closing:
        opened = recipe.several(1)
        closing.callback(opened.close)
        refuse_unsuitable(recipe, opened)
        source = env if isinstance(env, str) else opened.env
        number = lanes_in(cluster, memory)
        lanes = Lanes(opened.observation_space, opened.action_space, number, source=source, like=opened)
        if isinstance(memory, ShardedReplay):
            closing.enter_context(trainer.temporary_memory(memory))
        session = closing.enter_context(trainer.open_session(lanes, hooks, schedule, endless=not goal.is_given))
        if (limits := session.limits_of(goal)) is None:
            return
        if not cluster.lockstep:
            trainer.run.mark_not_exact(
                "unrolls of a cluster are used in order of arrival; Cluster(lockstep=True) is exact"
            )
        if (why := _other_cluster(trainer.state(), cluster)) is not None:
            trainer.run.mark_not_exact(why)
        _leave_out_rollout(trainer.state().stepper)
        with session.monitored(limits):
            Driver(cluster, recipe, session, trainer, model, memory, limits).run()


def _other_cluster(state: TrainingState, cluster: Settings) -> str | None:
    """Describe how this cluster changes a resumed run; None if it does not."""
    before, timestep = state.cluster, state.counters.global_timestep
    if not before:
        return f"it ran in one process until timestep {timestep}; its running episodes end there" if timestep else None
    now = cluster.shape()
    changed = [f"{name} ({before[name]} -> {now[name]})" for name in now if before[name] != now[name]]
    if not changed:
        return None
    return f"its cluster changed at timestep {timestep}: {', '.join(changed)}; all actors begin new episodes"


def _leave_out_rollout(stepper: Stepper) -> None:
    """Drop the partial rollout of a single-process run, unless it can be learned from."""
    memory = stepper.memory
    if memory.is_rollout and not stepper.pending_updates and len(memory):
        logger.warning("%d timesteps of a partial rollout are dropped: a cluster fills whole rollouts", len(memory))
        memory.clear()
