"""Compiled programs that the tests of this folder share, also those of other processes: each is built once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from axonrl.serving.catalogue import Recipe, recipe
from axonrl.serving.workers import building


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of compiled programs."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "programs"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def built(programs: Path) -> Callable[..., Recipe]:
    """Make the recipe of an agent, and its program with initial weights for its seed."""

    def make(model: str, config: Mapping[str, Any]) -> Recipe:
        made = recipe(model, {"seed": 0, **config})
        with FileLock(programs / f"{made.digest}.lock"):
            building.build(made, programs)
        return made

    return make
