import importlib
from pathlib import Path
from typing import Any

import pytest

from axonrl.core.yaml_text import to_yaml
from axonrl.experiments.commands.cli import main
from axonrl.experiments.config.schema import ExperimentFile, load
from axonrl.experiments.errors import ChangedExperimentError, RunFolderError
from axonrl.experiments.running import folder as records
from axonrl.experiments.running import runner, trained_agent
from axonrl.experiments.tracking import producer
from axonrl.experiments.tracking.mlflow import MLflowTracker
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.tests.experiments.fakes import FakeAgent
from axonrl.tests.raising import raised


def make(**changes: Any) -> ExperimentFile:
    values = {"name": "x", "environment": {"id": "CartPole-v1"}, "agent": {"model_fn": "dqn"}}
    return ExperimentFile.model_validate(values | changes)


def changes(folder: Path, changed: ExperimentFile) -> list[str]:
    """Changes that keep a run from being resumed."""
    return list(raised(ChangedExperimentError, records.prepare, folder, changed, resume=True).changes)


AWKWARD = [
    *("1e-4", "0o17", "yes", "null", "", "~", ".nan", "1e999", "007", "a: b", "# no", "- x", "&a", "*a", "!t", "="),
    *("<<", " edge ", "line\nline\n", "tab\t", "ümläut ☃", "'quoted' \"twice\"", "\0\x1b", "2024-01-01", "12:30:00"),
    *("x" * 300, "two words " * 40, "next\x85line", "\x85"),
]


def test_the_resolved_file_reads_back_unchanged(tmp_path: Path) -> None:
    shared = [1, 2]
    numbers = [1e-5, 1e22, 123456789.123, -0.0, 5e-324, 2**63, -(2**63), 0.1, True, None]
    before = make(
        seed=2**62,
        params={"a": {"type": "str", "default": "1e-4"}},
        agent={
            "model_fn": "dqn",
            "params": {"text": AWKWARD, "numbers": numbers, "one": shared, "two": shared, "": {}},
        },
        evaluate=None,
        hooks=[{"kind": "progress"}, {"kind": "evaluation", "episodes": 3}],
    )
    file = tmp_path / "resolved.yml"
    file.write_text(to_yaml(before.model_dump()), encoding="utf-8")
    after = load(file)[0]
    assert after.model_dump() == before.model_dump()
    assert [type(value) for value in after.agent.params["numbers"]] == [type(value) for value in numbers]


def test_a_new_run_draws_its_seed_and_a_resumed_one_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    prepared = records.prepare(folder, make(), resume=False)
    assert prepared.seed is not None
    assert 0 <= prepared.seed < 2**63
    assert [path.name for path in folder.iterdir()] == ["experiment.yml"]
    assert records.read_experiment(folder) == prepared
    assert records.prepare(folder, make(), resume=True).seed == prepared.seed
    assert changes(folder, make(seed=1)) == [f"seed ({prepared.seed} -> 1)"]
    assert records.prepare(tmp_path / "given", make(seed=5), resume=False).seed == 5


def test_a_link_to_a_missing_folder_is_not_free(tmp_path: Path) -> None:
    (tmp_path / "pole").symlink_to(tmp_path / "gone")
    assert records.new_folder(tmp_path, "pole") == tmp_path / "pole-2"
    assert records.next_folder(tmp_path, "pole") == tmp_path / "pole-3"


def test_an_empty_folder_is_free(tmp_path: Path) -> None:
    (tmp_path / ".experiment.yml.tmp").touch()  # killed before the file had its name
    records.prepare(tmp_path, make(seed=1), resume=False)
    assert records.read_experiment(tmp_path).seed == 1


def test_a_run_may_go_on_in_a_cluster_and_come_back(tmp_path: Path) -> None:
    environment = {"id": "CartPole-v1", "num_envs": 4}
    records.prepare(tmp_path, make(seed=1, environment=environment), resume=False)
    for actors in (2, 3):
        records.prepare(tmp_path, make(seed=1, distributed={"actors": actors}), resume=True)
    records.prepare(tmp_path, make(seed=1, environment=environment), resume=True)
    assert changes(tmp_path, make(seed=1)) == ["environment.num_envs (4 -> 1)"]


def test_an_emptied_mapping_is_listed_by_its_entries(tmp_path: Path) -> None:
    records.prepare(tmp_path, make(seed=1, config={"keep_checkpoint_max": 5}), resume=False)
    caught = raised(ChangedExperimentError, records.prepare, tmp_path, make(seed=1), resume=True)
    assert str(caught) == (
        f"Run folder {tmp_path} cannot be resumed with a changed experiment: config.keep_checkpoint_max (5 -> absent)."
        " Only train.max_*, learn.max_steps, distributed, evaluate, tracker and submit may change."
        " Use --model-dir for a new run."
    )


@pytest.mark.parametrize(("text", "message"), [(None, "has no run.json. Restore it"), ("{", "run.json is damaged")])
def test_a_run_without_its_record_is_not_usable(
    text: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.prepare(tmp_path, make(seed=1), resume=False)
    monkeypatch.setattr(CheckpointStore, "newest", lambda _: 2)
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    raised(RunFolderError, records.prepare, tmp_path, make(seed=1), resume=True, match=message)
    raised(RunFolderError, trained_agent.load_trained, tmp_path, match=message)


def test_what_may_change_on_resume_is_recorded(tmp_path: Path) -> None:
    records.prepare(tmp_path, make(seed=1, train={"max_timesteps": 10}), resume=False)
    params = {"limit": {"type": "int", "default": 20}}
    changed = make(seed=1, train={"max_timesteps": 20, "max_episodes": 3}, evaluate={"episodes": 7}, params=params)
    records.prepare(tmp_path, changed, resume=True)
    assert records.read_experiment(tmp_path) == changed
    records.prepare(tmp_path, make(seed=1, evaluate=None), resume=True)
    assert records.read_experiment(tmp_path).evaluate is None


def test_what_learned_from_data_alone_may_go_on_with_more_updates_and_in_the_environment(tmp_path: Path) -> None:
    learn = {"data": "a.npz", "max_steps": 10}
    records.prepare(tmp_path, make(seed=1, learn=learn, train=None), resume=False)
    records.prepare(tmp_path, make(seed=1, learn={**learn, "max_steps": 20}, train=None), resume=True)
    records.prepare(tmp_path, make(seed=1, learn=learn, train={"first_update": 5, "max_timesteps": 10}), resume=True)
    other = make(seed=1, learn={**learn, "data": "b.npz"}, train={"first_update": 6, "max_timesteps": 20})
    assert changes(tmp_path, other) == ["learn.data ('a.npz' -> 'b.npz')", "train.first_update (5 -> 6)"]


def test_what_may_not_change_is_listed(tmp_path: Path) -> None:
    memory = {"kind": "replay", "size": 10}
    agent = {"model_fn": "dqn", "params": {"hidden": [64, 64], "rate": 0.1, "a": 1}, "memory": memory}
    params = {"hidden": [64], "double": True, "a": True}  # true is not one
    changed = {"model_fn": "dqn", "params": params, "memory": {"kind": "replay", "size": 20}}
    before = make(seed=1, agent=agent)
    records.prepare(tmp_path, before, resume=False)
    after = make(seed=1, agent=changed, train={"first_update": 50}, hooks=[{"kind": "progress"}])
    assert changes(tmp_path, after) == [
        "agent.params.hidden.1 (64 -> absent)",
        "agent.params.rate (0.1 -> absent)",
        "agent.params.a (1 -> true)",
        "agent.memory.size (10 -> 20)",
        "train.first_update (null -> 50)",
        "agent.params.double (absent -> true)",
        "hooks.0.kind (absent -> 'progress')",
    ]
    assert records.read_experiment(tmp_path) == before


# -- paths in an experiment -------------------------------------------------------------------------------------------

READERS = """\
from pathlib import Path

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

from axonrl.hooks import Hook
from axonrl.memories import ReplayMemory

SEEN = {}

def model_fn(features, labels, mode, params): ...

class Memory(ReplayMemory):
    def __init__(self, file):
        super().__init__(100, 10)
        SEEN["memory"] = Path(file).read_text()

class Watcher(Hook):
    def __init__(self, file):
        self.file = file

    def begin(self, session, facts):
        SEEN["hook"] = Path(self.file).read_text()

class Poles(CartPoleEnv):
    def __init__(self, file, render_mode=None):
        super().__init__(render_mode=render_mode)
        SEEN["environment"] = Path(file).read_text()

class Tracker:
    def __init__(self, file):
        self.file = file

    def push(self, run):
        SEEN["tracker"] = Path(self.file).read_text()

gymnasium.register("Poles-v7", Poles)
"""
PLACES = """\
include: parts/agent.yml
environment:
  id: readers:Poles-v7
  kwargs: {file: note.txt}
learn: {data: note.txt, max_steps: 3}
train: {max_timesteps: 20}
evaluate: {episodes: 2}
hooks: [{kind: "readers:Watcher", file: note.txt}]
tracker: [{kind: mlflow, uri: "sqlite:///note.txt"}, {kind: "readers:Tracker", file: note.txt}]
"""
AGENT = """\
agent:
  model_fn: readers:model_fn
  memory: {kind: "readers:Memory", file: note.txt}
  warm_start: note.txt
"""
TRAINS = ("memory", "hook", "environment", "learn", "warm_start")


def test_relative_paths_mean_what_they_meant_where_the_run_began(
    workplace: Path, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check every key that names a file, from whichever folder the run is continued, evaluated or synced."""
    there, elsewhere = workplace / "there", workplace / "elsewhere"
    for place in (there / "parts", elsewhere):
        place.mkdir(parents=True)
    for place in (there, elsewhere):
        (place / "note.txt").write_text(place.name)
    (there / "readers.py").write_text(READERS)
    (there / "file.yml").write_text(PLACES)
    (there / "parts" / "agent.yml").write_text(AGENT)
    monkeypatch.syspath_prepend(str(there))
    seen: dict[str, str] = importlib.import_module("readers").SEEN
    make, learn = runner.agent_of, FakeAgent.learn

    def made(experiment: Any, parts: Any, folder: Path) -> Any:
        seen["warm_start"] = Path(experiment.agent.warm_start.run).read_text()
        return make(experiment, parts, folder)

    def learned(agent: FakeAgent, data: str, *arguments: Any, **named: Any) -> FakeAgent:
        seen["learn"] = Path(data).read_text()
        return learn(agent, data, *arguments, **named)

    def pushed(tracker: MLflowTracker, run: Any) -> None:
        seen["mlflow"] = Path(str(tracker._uri).removeprefix("sqlite:///")).read_text()

    monkeypatch.setattr(runner, "agent_of", made)
    monkeypatch.setattr(trained_agent, "load_trained", lambda at, _: (records.read_experiment(at), agents[0], "last"))
    monkeypatch.setattr(FakeAgent, "learn", learned)
    monkeypatch.setattr(MLflowTracker, "push", pushed)
    monkeypatch.setattr(producer, "_Follower", lambda *_: None)
    monkeypatch.delenv("POLYAXON_NO_OP")

    def found(here: Path, command: str, *arguments: str) -> dict[str, str]:
        seen.clear()
        monkeypatch.chdir(here)
        assert main([command, *arguments]) == 0, capsys.readouterr()
        assert Path.cwd() == here
        return dict(seen)

    file, run = "../there/file.yml", "../there/runs/file"
    began = dict.fromkeys(TRAINS, "there")
    synced = dict.fromkeys(("mlflow", "tracker"), "there")
    assert found(there, "run", "file.yml") == began
    assert found(elsewhere, "run", file, "--resume", "--model-dir", run) == began
    assert found(elsewhere, "evaluate", run) == {"environment": "there"}
    assert found(elsewhere, "sync", run) == synced

    moved = there.rename(workplace / "moved")  # with all that it names
    assert found(moved, "run", "file.yml", "--resume") == began
    assert found(elsewhere, "sync", str(moved / "runs" / "file")) == synced  # where it was continued
