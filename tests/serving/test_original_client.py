"""The original service's published client drives ours, unchanged but for the URL."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from .for_accounts import PASSWORD
from .hosted import Built
from .live import Server, prepared, running

pytestmark = pytest.mark.server
PYTHON: Final = Path(__file__).resolve().parents[2] / ".venv-agents-bar" / "bin" / "python"
SETTINGS: Final = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
MODELS: Final = ("dqn", "ddpg")

PROGRAM: Final = """
import json, sys
from agents_bar import RemoteAgent, wait_until_agent_exists, wait_until_agent_is_active

url, model, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
told = {}
try:
    RemoteAgent("cart", url=url, username="alice", password="not the password")
except ValueError as error:
    told["refused"] = str(error)
agent = RemoteAgent("cart", description="a cart", url=url, **settings)
told["before"] = agent.exists
told["created"] = agent.create_agent(4, 2, model.upper())
told["waited"] = [wait_until_agent_exists(agent, 5, False), wait_until_agent_is_active(agent, 5, False)]
told["exists"], told["is_active"], told["discrete"] = agent.exists, agent.is_active, agent.discrete
try:
    agent.create_agent(4, 2, model)
except RuntimeError as error:
    told["again"] = str(error)
state = [0.1, 0.2, 0.3, 0.4]
told["actions"] = [agent.act(state, 0), agent.act(state, noise=1)]
told["steps"] = [agent.step(state, agent.act(state, 0.5), k / 10, state, k % 5 == 4) for k in range(20)]
told["info"] = agent.info()
told["hparams"] = agent.hparams

other = RemoteAgent("cart", url=url)
other.sync()
told["synced"] = [other.obs_size, other.action_size, other.agent_model]
kept = agent.get_state()
told["state"] = [kept.model, kept.obs_size, kept.action_size]
second = RemoteAgent("second", url=url, **settings)
second.create_agent(4, 2, model)
told["uploaded"] = second.upload_state(kept)
told["same"] = second.get_state() == kept
told["acts_alike"] = second.act(state) == agent.act(state)
told["other name"] = agent.remove(agent_name="nosuch")
told["removed"] = agent.remove(agent_name="cart")
told["after"] = agent.exists
told["second removed"] = second.remove(agent_name="second")
print(json.dumps(told))
"""


def run(url: str, *words: str, **variables: str) -> dict[str, Any]:
    done = subprocess.run(
        [PYTHON, "-c", PROGRAM, url, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={"PATH": os.defpath, **variables},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if not PYTHON.exists():
        missing = f"the original client is not installed ({PYTHON}): make test-server"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)


def test_it_drives_our_server(built: Built, programs: Path, tmp_path: Path) -> None:
    recipes = [built(model, {"state_size": 4, "action_size": 2, **SETTINGS}) for model in MODELS]
    prepared(tmp_path / "data", programs, *recipes)
    account = {"AGENTS_BAR_USER": "alice", "AGENTS_BAR_PASS": PASSWORD}
    with running(Server(tmp_path / "data")) as server:
        for model in MODELS:
            told = run(server.url, model, json.dumps(SETTINGS), **account)
            check(told, model)


def check(told: dict[str, Any], model: str) -> None:
    assert (told["before"], told["exists"], told["is_active"], told["waited"]) == (False, True, True, [True, True])
    assert "invalid_credentials" in told["refused"]
    assert "name_taken" in told["again"]
    created = told["created"]
    assert (created["name"], created["model"], created["description"]) == ("cart", model, "a cart")
    assert (created["config"]["obs_size"], created["config"]["action_size"]) == (4, 2)
    for action in told["actions"]:
        if model == "dqn":
            assert action in {0, 1}
            assert isinstance(action, int)
        else:
            assert len(action) == 2
            assert all(isinstance(number, float) and 0 <= number <= 1 for number in action)
    assert told["steps"] == [True] * 20
    assert told["info"]["counters"]["global_timestep"] == 20
    assert told["info"]["counters"]["global_step"] > 0
    assert {type(value) for value in told["hparams"].values()} <= {int, float, str, bool}
    assert (told["synced"], told["state"]) == ([4, 2, model], [model, 4, 2])
    assert (told["uploaded"], told["same"], told["acts_alike"]) == (True, True, True)
    assert (told["other name"], told["removed"], told["after"], told["second removed"]) == (False, True, False, True)
