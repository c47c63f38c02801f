"""``axonrl service export-policy``: export an agent's policy, as ``Agent.export`` does."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import ArgumentError, CheckpointError
from ...estimators.agent import Agent
from ...run_dir.checkpoints import CheckpointStore
from ..accounts import UnusableError, folder
from ..catalogue import Recipe
from ..hosting.agent_store import service_part
from ..hosting.programs import PROGRAMS, ProgramMissingError, program_of
from .context import Service


def export_policy(service: Service) -> int:
    """Run the command on the newest checkpoint, which a running server writes once a minute."""
    given = service.arguments
    path = service.folder / folder.AGENTS / service.agent(given.agent).id
    try:
        target = _agent(path, service.folder / PROGRAMS).export(given.directory)
    except (ArgumentError, CheckpointError, ValueError) as error:
        raise UnusableError(f"Agent {given.agent} cannot be exported: {error}") from error
    return service.done(f"Exported {given.agent} to {target}.", agent=given.agent, directory=str(target))


def _agent(path: Path, programs: Path) -> Agent:
    """An Agent of the folder, an ordinary run folder; without TensorFlow if there is a program."""
    found = CheckpointStore(path).open()
    if found is None:
        raise CheckpointError("it has no checkpoint yet")
    try:
        program = program_of(Recipe.from_json(service_part(found[1])["recipe"]), programs)
    except ProgramMissingError:
        return Agent.load(path)
    return Agent(None, model_dir=path, compiled=program.directory)
