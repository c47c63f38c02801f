"""``axonrl push``: publish a run, or an exported policy, on the Hugging Face Hub."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from ...core import hub
from ...policies import description
from ...run_dir import published
from ...run_dir import record as run_record
from ...run_dir.model_card import HERE
from ..console import DONE
from ..errors import ExperimentError
from ..running.trained_agent import load_agent, usual_policy
from .arguments import FORMATS
from .single_run import where_the_run_began

_OURS: Final = (*description.FILES, *published.PATTERNS, *published.SHOWN)
"""Files that an earlier push may have left; a new push replaces or removes them."""


@where_the_run_began
def push(arguments: argparse.Namespace) -> int:
    """Publish a folder; prints the address of its page."""
    folder, repository = arguments.model_dir, arguments.repository
    if not hub.REPOSITORY.fullmatch(repository):
        raise ExperimentError("USER/NAME", f"must be an owner and a name, such as me/cartpole, got {repository!r}")
    hub.package()  # a missing package shows first
    if (folder / description.FILE).is_file() and not (folder / run_record.FILE).is_file():
        if arguments.policy or arguments.formats != FORMATS[:1]:
            raise ExperimentError("--policy, --formats", f"apply to run folders, but {folder} is an exported policy")
        files = _files_of_export(folder, repository)
        print(hub.upload(repository, files, _OURS, "A policy of axonrl", private=arguments.private))
        return DONE
    usual = usual_policy(folder)
    policy, agent = arguments.policy or usual, load_agent(folder)
    with tempfile.TemporaryDirectory() as temporary:
        exported = agent.export(Path(temporary, "exported"), policy=policy, formats=arguments.formats)
        files = {**published.files_of(folder, Path(temporary)), **_files_of_export(exported, repository, run=True)}
        print(hub.upload(repository, files, _OURS, "A run of axonrl", private=arguments.private))
    return DONE


def _files_of_export(folder: Path, repository: str, *, run: bool = False) -> dict[str, Path | bytes]:
    """The files of an export; its card says how to load it, and the run beside it, from the repository."""
    address = f"{hub.SCHEME}{repository}"
    card = (folder / description.CARD).read_text(encoding="utf-8").replace(HERE, address)
    if run:
        card += f'- The run is here, too: `axonrl.Agent.load("{address}")` evaluates it, or continues it in a copy.\n'
    there = {name: folder / name for name in description.FILES if (folder / name).is_file()}
    return {**there, description.CARD: card.encode()}
