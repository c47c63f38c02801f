"""Turn a run trained by axonrl into the folder of a hosted agent."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...core.errors import CheckpointError
from ...core.protocols import State
from ...estimators.stepper import Stepper
from ...run_dir.checkpoints import CheckpointStore
from ..catalogue.recipes import Recipe
from .agent_store import SERVICE
from .durable import DurableAgent
from .programs import open_stepper

_UNSUPPORTED: Final = {
    "statistics": "its environment's wrappers learn statistics of observations or rewards, which hosted agents lack",
    "cluster": "it was trained by several processes",
}
"""Parts of a checkpoint that a hosted agent does not support, and cannot ignore."""


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
    for part, why in _UNSUPPORTED.items():
        if state.get(part):
            raise CheckpointError(f"{run} cannot be hosted: {why}")
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

    def stepper_of(recipe: Recipe, fresh: bool) -> Stepper:
        stepper = open_stepper(recipe, programs, fresh)
        stepper.load_state_dict(state)
        stepper.memory.cut()  # type: ignore[attr-defined] # the catalogue has axonrl's own; what comes continues nothing
        return stepper

    agent = DurableAgent.open(path, stepper_of, recipe)
    agent.close()
    return len(agent.learning.stepper.memory)
