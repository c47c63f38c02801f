"""Compiled programs that the tests of this folder share, also those of other processes: each is built once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from axonrl import Agent, RunConfig, registry
from axonrl.environments import spaces
from axonrl.serving.catalogue import Recipe, recipe

SEEDS = range(6)
"""Of the agents that tests create."""


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of compiled programs."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "programs"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def built(programs: Path) -> Callable[..., Recipe]:
    """Make the recipe of an agent, and its program with initial weights for ``SEEDS``."""

    def make(model: str, config: Mapping[str, Any]) -> Recipe:
        made = recipe(model, {"seed": 0, **config})
        directory = programs / made.digest
        with FileLock(programs / f"{made.digest}.lock"):
            if not directory.exists():
                arguments = {name: value for name, value in made.memory.items() if name != "kind"}
                memory = registry.find("memory", made.memory["kind"])(**arguments)
                space = spaces.from_json(made.observation), spaces.from_json(made.action)
                settings = RunConfig(seed=0, observation_space=space[0], action_space=space[1])
                model_dir = programs / f"{made.digest}.run"
                agent = Agent(made.model_fn, params=made.params, memory=memory, model_dir=model_dir, config=settings)
                agent.compile(directory, space, seeds=SEEDS)
        return made

    return make
