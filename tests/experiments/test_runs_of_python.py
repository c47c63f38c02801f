"""Runs that a Python program trained: the command line takes them as its own."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from axonrl import Agent, RunConfig
from axonrl.experiments.commands.cli import main
from axonrl.experiments.comparison.run_digest import read_run
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.running import folder as records
from axonrl.hooks import EvaluationHook
from axonrl.memories import ReplayMemory
from axonrl.policies import Policy
from axonrl.run_dir.history import read_episodes
from axonrl.tests.experiments.sharing import tracked_run
from axonrl.tests.raising import raised

PARAMS = {"epsilon": 0.25}
TRACKER = """\
class Mine:
    def push(self, run):
        (run.folder / "told.txt").write_text(f"{run.uuid} {run.status} {len(run.points)}")
"""


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("python")


@pytest.fixture(scope="module")
def run(model_file: Path) -> Path:
    """Sixty timesteps of CartPole, with two evaluations that kept the best policy."""
    from axonrl.tests.estimators.fakes import linear_model

    folder = model_file / "my run"
    config = RunConfig(seed=3, progress=False)
    agent = Agent(linear_model, ReplayMemory(100, 4), folder, config, PARAMS)
    agent.train("CartPole-v1", 8, 2, timesteps=60, hooks=EvaluationHook(30, 2))
    return folder


def test_it_is_read_as_an_experiment(run: Path) -> None:
    experiment = records.read_experiment(run)
    assert (experiment.name, experiment.seed, experiment.environment.id) == ("my-run", 3, "CartPole-v1")
    assert experiment.agent.model_fn == "axonrl.tests.estimators.fakes:linear_model"
    assert experiment.agent.params == PARAMS
    assert experiment.agent.memory is not None
    assert experiment.agent.memory.kwargs["size"] == 100
    assert experiment.evaluate is not None
    assert experiment.evaluate.policy == "best"


def test_it_is_evaluated_and_exported(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "--episodes", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == Agent.load(run).evaluate("CartPole-v1", 3, policy="best")
    for checkpoint in ("2", "best"):
        assert main(["evaluate", str(run), "--checkpoint", checkpoint, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["recorded"] == {name: found[name] for name in found["recorded"]}
    assert main(["export", str(run), "--policy", "last"]) == 0
    assert capsys.readouterr().out == f"{run / 'exported'}\n"
    assert Policy.load(run / "exported").description["policy"] == "last"


def test_formats_are_chosen_by_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert raised(SystemExit, main, ["export", str(run), "--formats", "litert, coreml"]).code == 2
    assert "must be some of litert, onnx, separated by commas; got 'litert, coreml'" in capsys.readouterr().err


def test_an_evaluation_in_an_environment_that_only_the_program_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message says that the episodes differ; the program itself repeats them."""
    from axonrl.tests.estimators.fakes import linear_model

    own: Any = gymnasium.make("CartPole-v1", max_episode_steps=7)
    agent = Agent(linear_model, ReplayMemory(100, 4), tmp_path, RunConfig(seed=3, progress=False), PARAMS)
    agent.train("CartPole-v1", 8, 2, timesteps=30, hooks=EvaluationHook(30, 2, env=own))
    assert main(["evaluate", str(tmp_path), "--checkpoint", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert "in an environment that a Python program made" in err
    assert found["episode_length_mean"] > found["recorded"]["episode_length_mean"] == 7
    assert Agent.load(tmp_path).evaluate(own, policy=2) == found["recorded"]


def test_it_is_synced_each_time_from_its_history(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.parent / "users_python_tracker.py").write_text(TRACKER)
    monkeypatch.syspath_prepend(run.parent)
    read = records.read_experiment

    def with_tracker(folder: Path) -> Any:
        experiment = read(folder)
        tracker = [{"kind": "users_python_tracker:Mine"}]
        return type(experiment).model_validate({**experiment.model_dump(), "tracker": tracker})

    monkeypatch.setattr("axonrl.experiments.commands.sync.read_experiment", with_tracker)
    assert main(["sync", str(run)]) == 0
    tracked = tracked_run(run)
    assert (tracked.name, tracked.status) == ("my-run", "succeeded")
    assert tracked.inputs["agent.params.epsilon"] == 0.25
    with (run / "episodes.csv").open() as file:
        returns = [(int(row["global_timestep"]), float(row["episode_return"])) for row in csv.DictReader(file)]
    assert [(point.step, point.value) for point in tracked.points if point.name == "rollout/return"] == returns
    assert [point.step for point in tracked.points if point.name == "eval/return_mean"] == [30, 60]
    uuid, status, points = (run / "told.txt").read_text().split()
    assert (uuid, status, int(points)) == (tracked.uuid, "succeeded", len(tracked.points))
    agent = Agent.load(run, config=RunConfig(progress=False, save_checkpoints_secs=None))
    agent.train("CartPole-v1", 8, 2, timesteps=200)
    assert main(["sync", str(run)]) == 0
    again = tracked_run(run)
    assert again.uuid == tracked.uuid
    found = [point for point in again.points if point.name == "rollout/return"]
    assert len(found) == len(read_episodes(run)) > len(returns)
    assert again.status == "succeeded"
    (run / "lock.pid").write_text("999999999")  # left by a training that was killed
    for _ in range(2):  # it stays known
        assert main(["sync", str(run)]) == 0
        assert tracked_run(run).status == "failed"
        assert read_run(run)[0].status == "killed"
    agent = Agent.load(run, config=RunConfig(progress=False))
    agent.train("CartPole-v1", 8, 2, timesteps=210)
    assert main(["sync", str(run)]) == 0
    assert tracked_run(run).status == "succeeded"
    assert read_run(run)[0].status == "ended"


def test_it_is_not_continued_by_a_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "dqn_cartpole", "--model-dir", str(run), "--auto-resume"]) == 2
    assert "has the run of a Python program" in capsys.readouterr().err


def test_it_is_not_synced_while_it_is_trained(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "journal.jsonl").unlink(missing_ok=True)
    agent = Agent.load(run, config=RunConfig(progress=False, save_checkpoints_secs=None))
    with agent.session("CartPole-v1"):
        assert main(["sync", str(run)]) == 2
    assert "cannot be synced now" in capsys.readouterr().err
    assert not (run / "journal.jsonl").exists()


def test_one_whose_environment_is_not_known(run: Path, tmp_path: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    own = {**record["environment"], "unrecorded": {"level": 2}}
    told = "has no recorded environment that can be made again", "lacks arguments or wrappers of CartPole-v1, level"
    for environment, what in zip((None, own), told, strict=True):
        (tmp_path / "run.json").write_text(json.dumps({**record, "environment": environment}))
        with pytest.raises(ExperimentError, match=rf"{what}\. Use Agent\.load in Python"):
            records.read_experiment(tmp_path)
    (tmp_path / "run.json").write_text("{")
    raised(ExperimentError, records.read_experiment, tmp_path, match=r"run\.json is damaged")


def test_one_without_an_environment_is_exported(run: Path, tmp_path: Path) -> None:
    """As one that its program's own loop trained, that learned from stored episodes, or that a service hosts."""
    folder = shutil.copytree(run, tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "environment": None}))
    assert main(["export", str(folder), "--output", str(tmp_path / "exported")]) == 0
    assert Policy.load(tmp_path / "exported").description["policy"] == "best"


WARM = """\
environment: {id: CartPole-v1}
agent:
  model_fn: axonrl.tests.estimators.fakes:linear_model
  params: {learning_rate: 0.01}
  memory: {kind: replay, size: 100, batch_size: 4}
  warm_start: SOURCE
train: {first_update: 8, max_timesteps: 10}
evaluate: null
"""


@pytest.mark.parametrize("form", ["{run}", "{{run: {run}, variables: weights, policy: best}}"])
def test_a_warm_start_in_a_file(run: Path, tmp_path: Path, form: str) -> None:
    file, folder = tmp_path / "warm.yml", tmp_path / "warm"
    file.write_text(WARM.replace("SOURCE", form.format(run=json.dumps(str(run)))))
    assert main(["run", str(file), "--model-dir", str(folder)]) == 0
    assert main(["run", str(file), "--model-dir", str(folder), "--resume", "--timesteps", "20"]) == 0
    record = json.loads((folder / "run.json").read_text())["warm_start"]
    policy = "best" if "best" in form else "last"
    assert (record["from"], record["policy"], record["new"]) == (str(run), policy, [])
