"""Submitting to a real Polyaxon server: a run is created, run by an agent, asked for, stopped, and shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.experiments.polyaxon.client import connect
from axonrl.tests.experiments.sharing import wait
from axonrl.tests.polyaxon_agent import carry_out
from axonrl.tests.polyaxon_server import PolyaxonServer
from axonrl.tests.serving.browser import browsing

PROJECT = "submissions"
EXPERIMENT = """\
name: my.pole
params:
  timesteps: {type: int, default: 1000}
  rate: 1e-3
environment: {id: CartPole-v1}
agent:
  model_fn: dqn
  params: {hidden: [8], learning_rate: "${rate}"}
  memory: {kind: replay, size: 100, batch_size: 10}
train: {first_update: 10, update_frequency: 5, max_timesteps: "${timesteps}"}
evaluate: {episodes: 2}
seed: 1
tracker: {project: somebody/else}
"""


@pytest.fixture(scope="session")  # as long as the server: with tests dealt anew, a process may come back to this module
def host(polyaxon_server: PolyaxonServer) -> str:
    connect(polyaxon_server.host).projects_v1.create_project("default", {"name": PROJECT})
    return polyaxon_server.host


@pytest.fixture
def submitted(host: str, workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The page of a submitted run of sixty timesteps."""
    monkeypatch.setenv("POLYAXON_HOST", host)
    (workplace / "experiment.yml").write_text(EXPERIMENT)
    options = ["--project", PROJECT, "-P", "timesteps=60", "--set", "seed=2"]
    assert main(["submit", "experiment.yml", *options]) == 0
    page = capsys.readouterr().out.rstrip("\n")
    assert page.startswith(f"{host}/ui/default/{PROJECT}/runs/")
    return page


def status(run: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["status", run, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_submitted_run_is_queued_with_its_inputs(submitted: str, capsys: pytest.CaptureFixture[str]) -> None:
    facts = status(submitted, capsys)
    assert (facts["name"], facts["status"], facts["finished"]) == ("my-pole", "queued", None)
    assert facts["inputs"] == {"timesteps": 60, "rate": 0.001}
    assert status(f"default/{PROJECT}/{submitted[-32:]}", capsys) == facts
    assert main(["logs", submitted]) == 0
    assert capsys.readouterr().out == ""


def test_a_run_can_be_stopped_until_it_has_ended(submitted: str, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", submitted]) == 0
    assert capsys.readouterr().out == "stopping\n"  # until an agent says that it has stopped
    assert status(submitted, capsys)["status"] == "stopping"
    condition = {"condition": {"type": "failed", "status": "True"}}
    connect(host).runs_v1.create_run_status("default", PROJECT, submitted[-32:], body=condition)
    assert main(["stop", submitted]) == 0
    assert capsys.readouterr().out == "already ended: failed\n"


def test_an_agent_runs_what_was_submitted(
    submitted: str, host: str, polyaxon_server: PolyaxonServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    ended = carry_out(host, PROJECT, submitted[-32:], shared)
    assert ended.returncode == 0, ended.stderr
    (folder,) = shared.glob("artifacts/*/outputs/my.pole")
    wait(lambda: main(["sync", str(folder), "--project", PROJECT]) == 0)  # the run's own follower may still be at it
    capsys.readouterr()
    facts = status(submitted, capsys)
    assert (facts["status"], facts["inputs"]["timesteps"]) == ("succeeded", 60)
    assert facts["outputs"]
    assert main(["logs", submitted]) == 0
    assert "training ends" in capsys.readouterr().out
    assert main(["status", submitted]) == 0
    assert "succeeded" in capsys.readouterr().out
    kept = polyaxon_server.folder / submitted[-32:]
    assert list(kept.glob("events/metric/*.plx"))
    assert "seed: 2" in (kept / "outputs" / "experiment.yml").read_text()
    assert "max_timesteps: 60" in (kept / "outputs" / "experiment.yml").read_text()


def test_what_the_server_does_not_have(
    submitted: str, host: str, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "experiment.yml", "--project", "nowhere"]) == 2
    assert capsys.readouterr().err == f"axonrl: error: {host} has no project default/nowhere\n"
    run = f"default/{PROJECT}/{'0' * 32}"
    assert main(["status", run]) == 2
    assert capsys.readouterr().err == f"axonrl: error: {host} has no run {'0' * 32} in the project default/{PROJECT}\n"


def test_a_matrix_is_accepted(submitted: str, host: str, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = "matrix: {kind: grid, params: {rate: {kind: choice, value: [0.1, 0.2]}}}\n"
    (workplace / "sweep.yml").write_text(f"include: experiment.yml\n{matrix}")
    assert main(["submit", "sweep.yml", "--project", PROJECT]) == 0
    run = connect(host).runs_v1.get_run("default", PROJECT, capsys.readouterr().out.rstrip("\n")[-32:])
    assert run.kind == "matrix"


@pytest.mark.browser
def test_the_web_page_shows_the_run(submitted: str, tmp_path: Path) -> None:
    with browsing(tmp_path / "browser") as browser:
        browser.go(submitted)
        browser.wait("document.body.innerText.includes('my-pole')")
