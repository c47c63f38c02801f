"""Notebooks run in a kernel, and show progress, pictures and tables as notebooks do."""

import json
from pathlib import Path
from typing import Any, Final

import nbclient
import nbformat
import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
SHORT: Final = "import pytest\nfrom axonrl.tests.capped import cap\ncap(pytest.MonkeyPatch())"
INTERRUPTED: Final = """
import os, signal
from axonrl import Agent, RunConfig
from axonrl.memories import ReplayMemory

def stop(session, episode):
    if session.global_timestep > 100:
        os.kill(os.getpid(), signal.SIGINT)

agent = Agent("dqn", ReplayMemory(1_000, batch_size=8), "run", RunConfig(seed=0, runtime="tensorflow"))
agent.train("CartPole-v1", timesteps=300, hooks=stop)
"""


def run(notebook: Any, folder: Path) -> list[Any]:
    """Run all cells; returns the outputs of each."""
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    return [cell.get("outputs", []) for cell in notebook.cells]


@pytest.mark.docs
@pytest.mark.parametrize("name", ["quickstart", "own_model"])
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(SHORT))
    assert any("image/png" in output.get("data", {}) for outputs in run(notebook, tmp_path) for output in outputs)


@pytest.mark.docs
def test_an_interrupted_cell_leaves_an_agent_that_goes_on(tmp_path: Path) -> None:
    cells = [INTERRUPTED, 'agent.train("CartPole-v1", max_timesteps=300)', "agent.learning_curve()", "agent.summary()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.cells[0].metadata.tags = ["raises-exception"]
    stopped, continued, curve, summary = run(notebook, tmp_path)
    assert stopped[-1]["ename"] == "KeyboardInterrupt"
    said = "".join(output["text"] for output in stopped if output["output_type"] == "stream")
    assert "/run. Continue with agent.train(..., max_timesteps=300)" in said
    (progress,) = [output["data"] for output in continued if output["output_type"] == "display_data"]
    assert progress["text/plain"].startswith("timestep 300/300 | ")
    assert progress["text/html"].startswith('<progress value="1.0000" max="1"></progress> <code>100% | ')
    assert "image/png" in curve[0]["data"]
    assert summary[0]["data"]["text/html"].startswith("<table><thead><tr><th>variable</th>")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["seed"] == 0
