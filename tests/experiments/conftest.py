import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from axonrl.core.protocols import RunConfig
from axonrl.experiments.config.schema import load
from axonrl.experiments.running import runner, trained_agent
from axonrl.tests.experiments.fakes import FakeAgent, FakeSession
from axonrl.tests.polyaxon_server import PolyaxonServer


@pytest.fixture
def failures() -> list[Exception]:
    """Errors that the next calls of ``train`` raise."""
    return []


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch, failures: list[Exception]) -> list[FakeAgent]:
    """The fake agents that the runner creates; TensorFlow is not loaded."""
    made: list[FakeAgent] = []

    def make(experiment: Any, parts: Any, folder: Path) -> FakeAgent:
        config = RunConfig(seed=experiment.seed, **experiment.config)
        params = experiment.agent.params
        made.append(FakeAgent(parts.model_fn, parts.memory, folder, config, params, failures))
        return made[-1]

    monkeypatch.setattr(runner, "agent_of", make)
    return made


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, with a model function of the user's in ``users_model.py``."""
    (tmp_path / "users_model.py").write_text("def model_fn(features, labels, mode, params): ...\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "users_model", raising=False)
    return tmp_path


RUN = """\
name: my_run
params: {limit: 20}
environment: {id: CartPole-v1}
agent:
  model_fn: users_model:model_fn
  params: {rate: 0.5}
  memory: {kind: replay, size: 100, batch_size: 10}
train: {first_update: 10, update_frequency: 5, max_timesteps: "${limit}"}
evaluate: {episodes: 4}
hooks: [{kind: stop_at_episode, episode: 1000}]
"""


@pytest.fixture
def run_file(workplace: Path) -> Path:
    """An experiment of twenty timesteps."""
    file = workplace / "file.yml"
    file.write_text(RUN)
    return file


@pytest.fixture
def trained_run(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the run folder ``run`` of an experiment, with the agent that a module finds there."""

    def make(experiment: str, module: ModuleType, agent: Any) -> None:
        (workplace / "run").mkdir()
        (workplace / "run" / "experiment.yml").write_text(experiment)
        made = load(workplace / "run" / "experiment.yml")[0]
        usual = trained_agent.evaluation_of(made).policy
        monkeypatch.setattr(module, "load_trained", lambda _, policy=None: (made, agent, policy or usual))

    return make


@pytest.fixture
def session(tmp_path: Path) -> FakeSession:
    return FakeSession(tmp_path)


@pytest.fixture(scope="session")
def polyaxon_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolyaxonServer]:
    """A real server that all tests of this process share: with ``host``, ``folder``, ``stop()`` and ``start()``."""
    with PolyaxonServer(tmp_path_factory.mktemp("polyaxon")) as server:
        yield server
