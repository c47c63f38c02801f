"""``axonrl record``: what is recorded of which policy, and what it refuses. The Agent is a fake; and one real chain."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonrl.environments import make, read_episodes
from axonrl.experiments.commands import cli
from axonrl.experiments.running import runner
from axonrl.runs.history import read_evaluations

FILE = """\
environment: {id: CartPole-v1, num_envs: 4}
agent: {model_fn: dqn}
hooks: [{kind: evaluation, every_timesteps: 10}]
"""
RESULTS = {"episode_return_mean": 2.0, "episode_return_std": 0.5, "episodes": 3, "timesteps": 1234}


class Recorder:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def record(self, path: Path, env: Any, episodes: int | None, **options: Any) -> dict[str, float]:
        self.calls.append((path, env.spec.id, getattr(env, "num_envs", None), episodes, options))
        return RESULTS


@pytest.fixture
def recorder(trained_run: Callable[..., None]) -> Recorder:
    """The agent of the run folder ``run``."""
    made = Recorder()
    trained_run(FILE, runner, made)
    return made


def record(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.main(["record", "run", *words])
    return code, capfd.readouterr().out


def test_what_is_asked_for(recorder: Recorder, capfd: pytest.CaptureFixture[str]) -> None:
    code, out = record(capfd, "data.npz", "--episodes", "50")
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip()]
    assert (code, lines) == (0, ["data.npz", "timesteps 1,234", "recorded return, 3 episodes 2.00 ± 0.50"])
    words = ("--timesteps", "20", "--epsilon", "0.3", "--policy", "last", "--seed", "7", "--json")
    assert json.loads(record(capfd, "other.npz", *words)[1]) == RESULTS
    first, second = recorder.calls
    usual = {"timesteps": None, "epsilon": 0.0, "seed": None, "policy": "best"}
    assert first == (Path("data.npz"), "CartPole-v1", None, 50, usual)
    assert second[3:] == (None, {"timesteps": 20, "epsilon": 0.3, "seed": 7, "policy": "last"})


@pytest.mark.parametrize("words", [["data.npz"], ["data.npz", "--episodes", "5", "--epsilon", "1.5"]])
def test_wrong_arguments_are_exit_code_2(words: list[str], recorder: Recorder) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["record", "run", *words])
    assert caught.value.code == 2
    assert recorder.calls == []


@pytest.mark.usefixtures("traced_once")
def test_a_run_learns_from_the_file_resumes_and_goes_on_in_the_environment(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (workplace / "online.yml").write_text(
        "environment: {id: CartPole-v1}\n"
        "agent: {model_fn: dqn, params: {hidden: [8]}, memory: {kind: replay, size: 500, batch_size: 8}}\n"
        "train: {first_update: 50, max_timesteps: 60}\nevaluate: null\n"
    )
    (workplace / "offline.yml").write_text(
        "include: online.yml\ntrain: null\nlearn: {data: data.npz, max_steps: 30}\nevaluate: {episodes: 2}\n"
        "hooks: [{kind: evaluation, every_steps: 10, episodes: 2}]\n"
    )
    assert cli.main(["run", "online.yml", "--model-dir", "online"]) == 0
    assert cli.main(["record", "online", "data.npz", "--timesteps", "40", "--epsilon", "0.5"]) == 0
    env = make("CartPole-v1")
    assert sum(len(one["reward"]) for one in read_episodes("data.npz", env.observation_space, env.action_space)) == 40
    assert cli.main(["check", "offline.yml"]) == 0
    assert cli.main(["run", "offline.yml", "--model-dir", "offline"]) == 0
    assert [row.offline_steps for row in read_evaluations(Path("offline"))] == [10, 20, 30]
    capfd.readouterr()
    words = ["--set", "learn.max_steps=40", "--set", "train={first_update: 1, max_timesteps: 20}", "--json"]
    assert cli.main(["run", "offline.yml", "--model-dir", "offline", "--resume", *words]) == 0
    done = json.loads(capfd.readouterr().out)
    assert (done["updates"], done["timesteps"]) == (42, 20)
    rows = [(row.global_timestep, row.offline_steps) for row in read_evaluations(Path("offline"))]
    assert rows == [(0, 10), (0, 20), (0, 30), (0, 40), (20, 40)]
