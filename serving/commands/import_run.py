"""``axonrl service import-run``: continue a run trained by axonrl as a hosted agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core.errors import ArgumentError, CheckpointError
from ...run_dir import record
from .. import catalogue
from ..accounts import RefusedError, UnusableError, folder
from ..accounts.tables import Agent
from ..catalogue import hosted
from ..catalogue.run_configuration import config_of
from ..hosting import run_import
from ..hosting.agent_store import remove_agent
from ..hosting.programs import PROGRAMS
from ..workers.builder import build
from .context import Service, for_nobody_else


def import_run(service: Service) -> int:
    """Run the command."""
    given = service.arguments
    run: Path = given.run
    try:
        recipe, state, notes = _read(run, given.first_update, given.update_frequency)
        owner = service.accounts.user(given.user)
        with for_nobody_else():
            build(recipe, service.folder / PROGRAMS)
        most = owner.quotas.get("agents", 0)  # the service's default is in its configuration
        about = given.description or f"imported from {run.name}"
        row = service.agents.add(owner.id, given.name, recipe.model, about, recipe.config, most=most, by=service.by)
        stored = _write_agent(service, row, recipe, state)
    except (ArgumentError, CheckpointError, ValueError) as error:
        raise UnusableError(f"Run {run} cannot be imported: {error}") from error
    counters = state["counters"]
    shown = f"{owner.name}/{row.name}: {recipe.model}, {counters['global_timestep']:,} timesteps"
    sentence = f"Imported {shown}, {counters['global_step']:,} updates, {stored:,} transitions in its memory."
    more = {"model": recipe.model, "counters": dict(counters), "memory": stored, "config": recipe.config}
    return service.done("\n".join([sentence, *notes]), id=row.id, user=owner.name, name=row.name, **more, notes=notes)


def _read(run: Path, first: int | None, frequency: int | None) -> tuple[catalogue.Recipe, Any, list[str]]:
    """Recipe and state of a run, and notes for the user."""
    found = record.read(run)
    if found is None:
        raise CheckpointError("there is no run.json in it")
    model = hosted.MODELS.get(str(found.model_fn))
    if model is not None and model.memory == hosted.REPLAY:
        recorded = found.schedule or {}
        first, frequency = first or recorded.get("first_update"), frequency or recorded.get("update_frequency")
        if first is None or frequency is None:
            message = "the run does not say when it learned: give --first-update and --update-frequency"
            raise ArgumentError(f"{message}, as they were given to train()", "first_update")
    recipe = catalogue.recipe(str(found.model_fn), config_of(found, first, frequency))
    wrappers = (found.environment or {}).get("wrappers") or []
    names = ", ".join(str(one["kind"]) for one in wrappers)
    notes = [f"Its environment had wrappers, whose work is now the client's: {names}"] if wrappers else []
    return recipe, run_import.read(run), notes


def _write_agent(service: Service, row: Agent, recipe: catalogue.Recipe, state: Any) -> int:
    """Write the agent's folder; on failure, remove its row."""
    try:
        with for_nobody_else():
            stored = run_import.write(service.folder / folder.AGENTS / row.id, recipe, service.folder / PROGRAMS, state)
        if not service.agents.set_ready(row.id):
            raise RefusedError("not_found", "A server that was started meanwhile has removed it: import it again")
    except BaseException:
        service.agents.mark_removed(row.id, by=service.by)
        remove_agent(service.folder / folder.AGENTS / row.id)
        service.agents.remove(row.id)
        raise
    return stored
