"""Turn a run trained by axonrl into the folder of a hosted agent."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...core.errors import CheckpointError
from ...core.protocols import State
from ...run_dir.checkpoints import CheckpointStore
from ..catalogue.recipes import Recipe
from ..idempotency import Keys
from .accepted_steps import AcceptedSteps
from .agent_store import SERVICE, Folder
from .programs import open_stepper

_UNCHANGING: Final = ("statistics", "cluster")
"""Parts of a checkpoint that a hosted agent does not support, and cannot ignore."""
_WHY: Final = {
    "statistics": "its environment's wrappers learn statistics (of observations or rewards), which no service has",
    "cluster": "it was trained by several processes",
}


def read(run: Path) -> State:
    """The newest whole checkpoint of a run that can be hosted.

    Raises:
        CheckpointError: there is none, or a service cannot continue it; says why.
    """
    found = CheckpointStore(run).open()
    if found is None:
        raise CheckpointError(f"{run} has no checkpoint")
    _, state = found
    if SERVICE in state:
        raise CheckpointError(f"{run} is an agent of a service: move it with axonrl service backup, or by its state")
    for part in _UNCHANGING:
        if state.get(part):
            raise CheckpointError(f"{run} cannot be hosted: {_WHY[part]}")
    return state


def write(path: Path, recipe: Recipe, programs: Path, state: State) -> int:
    """Write the folder of an agent in the state of a run: weights, memory, counters, generators.

    Args:
        path: the agent's folder.
        recipe: the agent's recipe, with its program built.
        programs: the folder of all programs.
        state: result of :func:`read`.

    Returns:
        Number of transitions in the memory.

    Raises:
        ValueError: the state is for another model or memory than the recipe's.
        CheckpointError: the folder cannot be written.
    """
    stepper = open_stepper(recipe, programs)
    stepper.load_state_dict(state)
    stepper.memory.cut()  # type: ignore[attr-defined] # the catalogue has axonrl's own; what comes continues nothing
    learning = AcceptedSteps(stepper, recipe.gathers)
    counters = stepper.counters
    learning.streams.finished = counters.global_episode
    folder = Folder(path)
    folder.lock()
    try:
        folder.describe(recipe, stepper)
        folder.use(stepper)
        accepted = Keys().state_dict()
        extra = {"recipe": recipe.to_json(), "seq": counters.global_timestep, "learns": True, "accepted": accepted}
        while learning.has_work:  # an update may be due in the saved run
            learning.work()
        folder.save(learning, 0, extra, learning.progress(counters.global_timestep))
    finally:
        folder.close()
    return len(stepper.memory)
